import pytest

from proxy.config.issue import Report, Severity, format_path
from proxy.config.validate_http_route import regex_fault
from proxy.config.validate_virtual_service import check_virtual_service
from proxy.config.virtual_service import VirtualService

TO = [{"destination": {"host": "a"}}]
ROUTE = {"route": TO}


def errors(body):
    report = Report()
    check_virtual_service(VirtualService.read(body, (), report), "default", (), report)
    return sorted({format_path(issue.path) for issue in report if issue.severity is Severity.ERROR})


def route_errors(**fields):
    return [path.removeprefix("http[0].") for path in errors({"hosts": ["a"], "http": [ROUTE | fields]})]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"hosts": ["a"], "http": [ROUTE]}, []),
        ({"hosts": ["*.example", "a"], "http": [ROUTE]}, []),
        ({"hosts": ["10.0.0.1"], "http": [ROUTE]}, []),
        ({"hosts": ["*"], "gateways": ["public"], "http": [ROUTE]}, []),
        ({"http": [ROUTE]}, []),
        ({"hosts": ["a"]}, ["http"]),
        ({"hosts": ["*"], "http": [ROUTE]}, ["hosts[0]"]),
        ({"hosts": ["*"], "gateways": ["mesh", "public"], "http": [ROUTE]}, ["hosts[0]"]),
        ({"hosts": ["a", "a"], "http": [ROUTE]}, ["hosts[1]"]),
        ({"hosts": ["a_b"], "http": [ROUTE]}, ["hosts[0]"]),
        ({"gateways": ["mesh"], "http": [ROUTE]}, ["hosts"]),
        ({"hosts": ["a"], "http": [None]}, ["http[0]"]),
        ({"hosts": ["a"], "http": [ROUTE], "exportTo": ["a", "a"]}, ["exportTo"]),
    ],
)
def test_virtual_services(body, paths):
    assert errors(body) == paths


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"timeout": "0s"}, []),
        ({"timeout": "1us"}, ["timeout"]),
        ({"route": [None]}, ["route[0]"]),
        ({"route": [{}]}, ["route[0].destination"]),
        ({"route": [{"destination": {"host": "*"}}]}, ["route[0].destination.host"]),
        ({"route": [{"destination": {"host": "a", "subset": "v.1"}}]}, ["route[0].destination.subset"]),
        ({"route": [{"destination": {"host": "a", "port": {"number": 0}}}]}, ["route[0].destination.port.number"]),
        ({"route": [], "redirect": {"uri": "/x"}}, []),
        ({"redirect": {"uri": "/x"}}, ["route"]),
        ({"route": [], "redirect": {}}, ["redirect"]),
        ({"route": [], "redirect": {"uri": "/x", "prefixRewrite": "/y"}}, ["redirect.prefixRewrite"]),
        ({"route": [], "redirect": {"uri": "/x", "redirectCode": 300}}, ["redirect.redirectCode"]),
        ({"route": [], "directResponse": {"status": 503}}, []),
        ({"route": [], "directResponse": {"status": 199}}, ["directResponse.status"]),
        ({"route": [], "directResponse": {"status": 503}, "redirect": {"uri": "/x"}}, ["directResponse"]),
        ({"directResponse": {"status": 503}}, ["route"]),
        ({"route": [], "delegate": {"name": "x"}}, []),
        ({"delegate": {"name": "x"}}, ["delegate"]),
        ({"rewrite": {}}, ["rewrite"]),
        ({"rewrite": {"uri": "/", "uriRegexRewrite": {"match": "a", "rewrite": "b"}}}, ["rewrite.uriRegexRewrite"]),
        ({"rewrite": {"uriRegexRewrite": {"match": "(", "rewrite": "b"}}}, ["rewrite.uriRegexRewrite.match"]),
        ({"match": [{"uri": {}}]}, ["match[0].uri"]),
        ({"match": [{"uri": {"prefix": ""}}]}, ["match[0].uri.prefix"]),
        ({"match": [{"headers": {"a b": {}}}]}, ["match[0].headers.a b"]),
        ({"match": [{"headers": {"a": {"regex": "["}}}]}, ["match[0].headers.a.regex"]),
        ({"match": [{"queryParams": {"a b": {}}}]}, []),
        ({"match": [{"port": 65536}]}, ["match[0].port"]),
        ({"headers": {"request": {"set": {"a b": "c"}}}}, ["headers.request.set"]),
        ({"mirror": {"host": "b"}, "mirrors": [{"destination": {"host": "b"}}]}, ["mirrors"]),
        ({"mirrors": [{}]}, ["mirrors[0].destination"]),
        ({"mirror": {"host": "b"}, "mirrorPercentage": {"value": 101}}, ["mirrorPercentage.value"]),
        ({"mirror": {"host": "b"}, "mirrorPercent": 101}, ["mirrorPercent"]),
        ({"fault": {"delay": {}}}, ["fault.delay.fixedDelay"]),
        ({"fault": {"delay": {"exponentialDelay": "1s"}}}, ["fault.delay.exponentialDelay"]),
        ({"fault": {"abort": {}}}, ["fault.abort"]),
        ({"fault": {"abort": {"grpcStatus": "NO"}}}, ["fault.abort.grpcStatus"]),
        ({"fault": {"abort": {"http2Error": "x"}}}, ["fault.abort.http2Error"]),
        ({"fault": {"abort": {"httpStatus": 503, "percentage": {"value": 0.00001}}}}, ["fault.abort.percentage.value"]),
        ({"corsPolicy": {"allowMethods": ["FETCH"]}}, ["corsPolicy.allowMethods[0]"]),
        ({"corsPolicy": {"maxAge": "1500ms"}}, ["corsPolicy.maxAge"]),
        ({"retries": {"attempts": 1, "perTryTimeout": "0s"}}, ["retries.perTryTimeout"]),
        ({"retries": {"attempts": 1, "retryOn": "5xx,418,599"}}, ["retries.retryOn"]),
        ({"retries": {"attempts": 1, "retryOn": "5xx,418"}}, []),
    ],
)
def test_http_routes(fields, paths):
    assert route_errors(**fields) == paths


@pytest.mark.parametrize("pattern", ["a.*", "(?i)x", "(?P<name>a)", "(?<name>a)", "[a-z]{1,3}"])
def test_patterns_that_re2_takes(pattern):
    assert regex_fault(pattern) is None


@pytest.mark.parametrize("pattern", ["", "*", "(", "a**", r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b"])
def test_patterns_that_re2_refuses(pattern):
    assert regex_fault(pattern) is not None
