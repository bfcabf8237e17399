"""Where an option's value comes from, and what a bad one says."""

from pathlib import Path

import pytest

from outlier import ConfigError, EnvoyRelease
from proxy.config.address import Address
from proxy.config.bootstrap import (
    Bootstrap,
    LoopChoice,
    ServiceListener,
    options,
)
from proxy.config.bootstrap_loader import BootstrapError, load_bootstrap
from proxy.config.cluster_config import Locality
from proxy.config.dns import DnsLookupFamily
from proxy.config.feed_mode import FeedMode
from proxy.config.releases import CURRENT, IstioRelease
from proxy.config.source_options import Source, SourceScheme
from proxy.logs import LogFormat, LogLevel


def load(file=None, environment=None, **command_line):
    return load_bootstrap(file, environment or {}, command_line)


@pytest.fixture
def boot(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "boot.yaml"
        path.write_text(text)
        return path

    return write


def test_nothing_given_is_the_documented_default():
    bootstrap = load()

    assert bootstrap == Bootstrap()
    assert str(bootstrap.listen) == "127.0.0.1:15001"
    assert str(bootstrap.admin) == "127.0.0.1:15000"
    assert bootstrap.envoy_release is EnvoyRelease.V1_40
    assert (bootstrap.istio_release, bootstrap.namespace, bootstrap.drain_time_ms) == (CURRENT, "default", 5_000)
    assert bootstrap.loop is LoopChoice.AUTO


def test_file_then_environment_then_command_line(boot):
    file = boot("listen: 127.0.0.1:1\nadmin: 127.0.0.1:2\nnamespace: file\n")
    environment = {"OUTLIER_ADMIN": "127.0.0.1:3", "OUTLIER_NAMESPACE": "environment", "PATH": "/bin"}

    bootstrap = load(file, environment, namespace="flag")

    assert (bootstrap.listen.port, bootstrap.admin.port, bootstrap.namespace) == (1, 3, "flag")


def test_every_option_can_be_set_in_the_file(boot, tmp_path):
    file = boot("""
config: [rules, /abs/rules]
source: [fs:///etc/rules, "mcp://config:9901"]
source_mode: strict
source_start_timeout: 0
source_max_message_size: 1048576
source_keepalive: 60
source_tls_ca: ca.pem
source_tls_certificate: /abs/cert.pem
source_tls_key: key.pem
source_tls_server_name: config.example
debounce_after: 0.05
debounce_max: 1
debounce_endpoints: "false"
listen: "[::1]:0"
service: {"reviews:9080": "127.0.0.1:9080", ratings: "unix:///run/ratings.sock"}
admin: unix:///run/admin.sock
event_log: events.log
access_log: "-"
envoy_release: 1.40
istio_release: 1.0.0
node_id: me
namespace: prod
labels: {app: web, version: v1}
locality: eu/eu-1/a
dns_resolver: [10.0.0.10, "[::1]:5353"]
dns_lookup_family: all
drain_time: 0.5
loop: asyncio
log_format: json
log_level: debug
""")

    assert load(file) == Bootstrap(
        config_paths=(tmp_path / "rules", Path("/abs/rules")),
        sources=(Source(SourceScheme.FILES, "/etc/rules"), Source(SourceScheme.MCP, "config:9901")),
        source_mode=FeedMode.STRICT,
        source_start_timeout_ms=0,
        source_max_message_bytes=1_048_576,
        source_keepalive_ms=60_000,
        source_tls_ca=tmp_path / "ca.pem",
        source_tls_certificate=Path("/abs/cert.pem"),
        source_tls_key=tmp_path / "key.pem",
        source_tls_server_name="config.example",
        debounce_after_ms=50,
        debounce_max_ms=1_000,
        debounce_endpoints=False,
        listen=Address("::1", 0),
        services=(
            ServiceListener("reviews", 9080, Address("127.0.0.1", 9080)),
            ServiceListener("ratings", None, Address(path="/run/ratings.sock")),
        ),
        admin=Address(path="/run/admin.sock"),
        event_log=tmp_path / "events.log",
        access_log=Path("-"),
        envoy_release=EnvoyRelease.V1_40,
        istio_release=IstioRelease((1, 0, 0)),
        node_id="me",
        namespace="prod",
        labels=(("app", "web"), ("version", "v1")),
        locality=Locality("eu", "eu-1", "a"),
        dns_resolvers=(Address("10.0.0.10", 53), Address("::1", 5353)),
        dns_lookup_family=DnsLookupFamily.ALL,
        drain_time_ms=500,
        loop=LoopChoice.ASYNCIO,
        log_format=LogFormat.JSON,
        log_level=LogLevel.DEBUG,
    )


def test_paths_outside_the_file_count_from_the_working_directory():
    assert load(environment={"OUTLIER_CONFIG": "a,b"}).config_paths == (Path("a"), Path("b"))
    assert load(config=["a", "b"]).config_paths == (Path("a"), Path("b"))


def test_list_of_a_nearer_place_replaces_the_farther_one():
    assert load(environment={"OUTLIER_CONFIG": "a"}, config=["b"]).config_paths == (Path("b"),)


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("listen", "15001", "must be host:port, [v6]:port or unix:///path"),
        ("listen", "::1:80", "must be host:port, [v6]:port or unix:///path"),
        ("listen", "127.0.0.1:65536", "must have a port in 0..65535"),
        ("listen", "127.0.0.1:", "must have a port in 0..65535"),
        ("listen", "127.0.0.1:-1", "must have a port in 0..65535"),
        ("admin", "unix://run/x", "must be unix:// and an absolute path"),
        ("service", "reviews", "must be HOST[:PORT]=ADDR"),
        ("service", "reviews:0=127.0.0.1:0", "must have a service port in 1..65535"),
        ("source", "fs://relative", "must be fs:// and an absolute path"),
        (
            "source",
            "ftp:///x",
            "must be one of fs://, mcp://, mcp-listen://, xds://, xds-delta:// and what follows it",
        ),
        ("source", "xds://config", "must be host:port, [v6]:port or unix:///path"),
        ("source", "mcp://unix:///run/config.sock", "must be mcp:// and host:port"),
        ("source_mode", "galley", "must be one of spec, strict, pilot"),
        ("source_max_message_size", "1023", "must be a whole number in 1024..2147483647"),
        ("debounce_endpoints", "yes", "must be true or false"),
        ("envoy_release", "1.4", "must be one of 1.8, 1.27, 1.40"),
        ("istio_release", "newest", "must be current or a version such as 1.1"),
        ("labels", "app", "must be key=value pairs, separated by commas"),
        ("dns_resolver", "dns.example", "must be an IP address, ip:port or [v6]:port"),
        ("dns_resolver", "dns.example:53", "must be an IP address, ip:port or [v6]:port"),
        ("dns_resolver", "10.0.0.10:0", "must be an IP address, ip:port or [v6]:port"),
        ("dns_lookup_family", "v4", "must be one of v4_only, v6_only, v4_preferred, auto, all"),
        ("drain_time", "-0.1", "must be in 0..3600 seconds"),
        ("drain_time", "3600.1", "must be in 0..3600 seconds"),
        ("drain_time", "soon", "must be in 0..3600 seconds"),
        ("drain_time", "nan", "must be in 0..3600 seconds"),
        ("loop", "trio", "must be one of auto, uvloop, asyncio"),
        ("node_id", "", "must not be empty"),
    ],
)
def test_bad_value_names_the_flag_the_value_and_the_rule(option, value, rule):
    with pytest.raises(ConfigError) as error:
        load(**{option: value})

    assert str(error.value) == f"--{option.replace('_', '-')} = {value}; {rule}"


@pytest.mark.parametrize("text", ["127.0.0.1:0", "127.0.0.1:65535", "[::1]:80", "unix:///run/x.sock", "localhost:80"])
def test_address_reads_back_as_written(text):
    assert str(Address.parse(text)) == text


def test_bad_value_in_the_environment_names_the_variable():
    with pytest.raises(ConfigError, match=r"^OUTLIER_LOOP = trio; must be one of"):
        load(environment={"OUTLIER_LOOP": "trio"})


def test_bad_value_in_the_file_names_file_and_key(boot):
    file = boot("loop: trio\n")

    with pytest.raises(ConfigError) as error:
        load(file)

    assert str(error.value) == f"{file}: loop = trio; must be one of auto, uvloop, asyncio"


def test_unknown_key_in_the_file_is_refused(boot):
    with pytest.raises(ConfigError, match=r"boot.yaml: listn = 1; is not an option of outlier run"):
        load(boot("listn: 1\n"))


def test_mapping_where_text_is_wanted_is_refused(boot):
    with pytest.raises(ConfigError, match="must be text"):
        load(boot("listen: {a: b}\n"))


def test_empty_file_changes_nothing(boot):
    assert load(boot("# nothing\n")) == Bootstrap()


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "just text"], ids=["list", "broken", "scalar"])
def test_file_that_is_no_mapping_is_refused_in_one_line(boot, text):
    with pytest.raises(BootstrapError) as error:
        load(boot(text))

    assert "\n" not in str(error.value)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(BootstrapError, match=r"gone.yaml: No such file or directory"):
        load(tmp_path / "gone.yaml")


def test_node_id_is_istios_form_when_not_given():
    assert Bootstrap(namespace="prod").node.id.endswith(".prod~prod.svc.cluster.local")
    assert Bootstrap(node_id="me").node.id == "me"


def test_node_carries_what_the_view_of_the_configuration_depends_on():
    node = Bootstrap(namespace="prod", labels=(("app", "web"),), locality=Locality("eu", "eu-1")).node

    assert (node.namespace, node.labels, node.locality) == ("prod", {"app": "web"}, Locality("eu", "eu-1"))


def test_flags_and_variables_follow_from_the_names():
    by_name = {option.name: option for option in options()}

    assert by_name["event_log"].flag == "--event-log"
    assert by_name["event_log"].environment_variable == "OUTLIER_EVENT_LOG"
    assert len(by_name) == len(options())
