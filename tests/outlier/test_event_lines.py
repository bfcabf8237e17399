"""The event log of Envoy 1.40, recorded from a running one, byte for byte."""

import datetime as dt
import json
from pathlib import Path

import pytest

from outlier import EjectionEvent, EjectionType
from outlier.detection import Detection, FailurePercentageEvidence, Outcome, SuccessRateEvidence
from outlier.events import Action
from outlier.releases import EventLogFormat

RECORDED = (Path(__file__).parent / "recorded_events.jsonl").read_text(encoding="utf-8").splitlines()
EVIDENCE = {
    "SUCCESS_RATE": SuccessRateEvidence(0.0, 0, 10, 74.9, 43.0, 0.4, 1900, 4),
    "FAILURE_PERCENTAGE": FailurePercentageEvidence(50.0, 5, 10, 40),
}


@pytest.mark.parametrize("line", RECORDED, ids=[f"{json.loads(x)['type']}-{json.loads(x)['action']}" for x in RECORDED])
def test_line_is_envoys(make_cluster, line):
    facts = json.loads(line)
    moment = dt.datetime.fromisoformat(facts["timestamp"])
    kind = EjectionType(facts["type"])
    seconds = facts.get("secs_since_last_action")
    event = EjectionEvent(
        action=Action(facts["action"]),
        type=kind,
        system_ms=round(moment.timestamp() * 1000),
        secs_since_last_action=None if seconds is None else int(seconds),
        cluster_name=facts["cluster_name"],
        upstream_url=facts["upstream_url"],
        num_ejections=facts["num_ejections"],
        enforced=facts["enforced"],
        log_format=EventLogFormat.FIELD_ORDER,
        monitor=make_cluster(hosts=1).hosts[0],
        detection=Detection(kind, 0, Outcome.EJECTED, EVIDENCE.get(facts["type"])),
    )

    assert event.to_json() == line
