"""Says when specs fire, by the zones of Python: it walks local times and asks for their instants."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

UTC = timezone.utc
MINUTE = timedelta(minutes=1)


def matches(question, local):
    minute, hour, day, month, weekday = question["Fields"]
    if local.minute not in minute or local.hour not in hour or local.month not in month:
        return False
    of_month, of_week = local.day in day, local.isoweekday() % 7 in weekday
    if question["Stars"] == [False, False]:
        return of_month or of_week
    return of_month and of_week


def instants(zone, local):
    """The instants at which a clock in the zone shows a local time."""
    found = set()
    for fold in (0, 1):
        instant = local.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == local:
            found.add(instant)
    return sorted(found)


def after_gap(zone, local):
    """The first instant at which a clock in the zone shows more than a local time that it skips."""
    instant = datetime.combine(local.date(), local.time(), UTC) - timedelta(hours=30)
    while instant.astimezone(zone).replace(tzinfo=None) < local:
        instant += timedelta(hours=1)
    while instant.astimezone(zone).replace(tzinfo=None) > local:
        instant -= MINUTE
    return instant + MINUTE


def times(zone, question):
    fires = set()
    begin = datetime.fromtimestamp(question["From"], UTC)
    end = datetime.fromtimestamp(question["To"], UTC)
    local = (begin - timedelta(hours=5)).astimezone(zone).replace(tzinfo=None)
    last = (end + timedelta(hours=5)).astimezone(zone).replace(tzinfo=None)
    while local <= last:
        if matches(question, local):
            shown = instants(zone, local)
            if question["Wild"]:
                fires.update(shown)
            elif shown:
                fires.add(shown[0])
            else:
                fires.add(after_gap(zone, local))
        local += MINUTE
    return [int(t.timestamp()) for t in sorted(fires) if begin <= t < end]


def main():
    zones = {}
    answers = []
    for question in json.load(sys.stdin):
        name = question["Zone"]
        if name not in zones:
            with open(os.path.join(sys.argv[1], name), "rb") as f:
                zones[name] = ZoneInfo.from_file(f, name)
        answers.append(times(zones[name], question))
    json.dump(answers, sys.stdout)


main()
