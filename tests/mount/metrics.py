"""Reads OpenMetrics text by the rules of the Prometheus project's own strict parser."""
import collections
import json
import os
import re
import sys
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def families(text):
    return list(text_string_to_metric_families(text))


def samples(text):
    """Name and labels of each sample, and its value."""
    found = {}
    for family in families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def check(text):
    """The whole file: each metric has a help and its unit, and no sample is there twice."""
    # The parser takes two of the same, one after the other, for one.
    names = collections.Counter(line.rsplit(" ", 1)[0] for line in text.splitlines()
                                if not line.startswith("#"))
    twice = [name for name, n in names.items() if n > 1]
    assert not twice, f"twice: {twice}"
    for family in families(text):
        assert family.name.startswith("gpumem_"), family.name
        assert family.documentation, f"{family.name} has no help"
        for unit in ("bytes", "seconds"):
            assert (family.unit == unit) == family.name.endswith("_" + unit), family.name
    samples(text)


def figure(text, name, **labels):
    """The sum of the samples with these labels."""
    return sum(value for (found, its), value in samples(text).items()
               if found == name and labels.items() <= dict(its).items())


def uses(query):
    """The metrics of a query with the labels that it names for each."""
    for name, selector in re.findall(r"\b(gpumem_\w+)(\{[^}]*\})?", query):
        yield name, set(re.findall(r"(\w+)\s*=", selector))
    grouped = {label.strip() for labels in re.findall(r"\b(?:by|on|group_left)\s*\(([^)]*)\)", query)
               for label in labels.split(",") if label.strip()}
    for name in set(re.findall(r"\bgpumem_\w+", query)):
        yield name, grouped


def queries(dashboard):
    """All queries of a dashboard: of panels and of variables."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target.get("legendFormat", "")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            query = variable["query"]
            matched = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
            assert matched, query
            yield variable["name"], f"sum by ({matched[2]}) ({matched[1]})", ""


def alerts(path):
    """All queries of a file of Prometheus's rules."""
    import yaml  # the others do without

    with open(path, encoding="utf-8") as file:
        for group in yaml.safe_load(file)["groups"]:
            for rule in group["rules"]:
                if "gpumem_" in rule["expr"]:
                    legend = re.sub(r"{{ \$labels\.(\w+) }}", r"{{\1}}", rule["annotations"]["summary"])
                    yield rule["alert"], rule["expr"], legend.replace("{{instance}}", "")


def check_queries(text, asked):
    """Every name and label of queries is one of the file's."""
    known = {}
    for name, labels in samples(text):
        known.setdefault(name, set()).update(label for label, _ in labels)
    n = 0
    for title, query, legend in asked:
        for name, labels in uses(query):
            assert name in known, f"{title}: there is no {name}"
            # $labels of Grafana are filled in before the query is sent
            missing = labels - known[name] - {"instance", "job"}
            assert not missing, f"{title}: {name} has no label {missing}"
            n += 1
        for label in re.findall(r"{{(\w+)}}", legend):
            assert any(label in known[name] for name, _ in uses(query)), f"{title}: {label}"
    assert n > 3, n


def is_above(found):
    """What counts against a limit and is more than the limit."""
    for what, limit in (("gpumem_charged_bytes", "gpumem_limit_bytes"),
                        ("gpumem_charged", "gpumem_limit")):
        for (name, labels), value in found.items():
            if name == what and value > found.get((limit, labels), float("inf")):
                yield f"{what} {dict(labels)} is {value}, the limit {found[limit, labels]}"


def goes_back(before, found):
    """Counters that are less than they were, of users who are still there."""
    for (name, labels), value in before.items():
        if name.endswith(("_total", "_count", "_bucket")):
            now = found.get((name, labels))
            if now is None or now < value:
                yield f"{name} {dict(labels)} was {value} and is {now}"


def watch(path, folder):
    """Reads the file again and again until FOLDER/night is there: each time all of it is
    right, no counter has gone back, and nobody has more than the limit."""
    n, users, before = 0, 0, {}
    while not os.path.exists(f"{folder}/night"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        check(text)
        found = samples(text)
        wrong = [*is_above(found), *goes_back(before, found)]
        assert not wrong, "\n".join(wrong)
        n, before = n + 1, found
        users = max(users, int(found["gpumem_owners", frozenset()]))
        time.sleep(0.1)  # a scrape as often as nobody wants
    assert n > 5, f"{n} scrapes"
    print(f"# metrics were read {n} times, of up to {users} users")


if __name__ == "__main__":
    command, file, *rest = sys.argv[1:]
    if command == "watch":
        sys.exit(watch(file, rest[0]))
    text = open(file, encoding="utf-8").read()
    if command == "check":
        check(text)
    elif command == "dashboard":
        check_queries(text, queries(json.load(open(rest[0]))))
    elif command == "alerts":
        check_queries(text, alerts(rest[0]))
    elif command == "names":
        print("\n".join(sorted(family.name for family in families(text))))
    else:
        print(f"{figure(text, command, **dict(word.split('=') for word in rest)):.0f}")
