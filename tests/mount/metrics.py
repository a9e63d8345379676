"""Reads OpenMetrics text by the rules of the Prometheus project's own strict parser."""
import json
import re
import sys

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
    """The whole file: each metric has a help, its unit, and what it counts never goes down."""
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


def check_dashboard(path, text):
    """Every name and label of the dashboard's queries is one of the file's."""
    known = {}
    for name, labels in samples(text):
        known.setdefault(name, set()).update(label for label, _ in labels)
    n = 0
    for title, query, legend in queries(json.load(open(path))):
        for name, labels in uses(query):
            assert name in known, f"{title}: there is no {name}"
            # $labels of Grafana are filled in before the query is sent
            missing = labels - known[name] - {"instance", "job"}
            assert not missing, f"{title}: {name} has no label {missing}"
            n += 1
        for label in re.findall(r"{{(\w+)}}", legend):
            assert any(label in known[name] for name, _ in uses(query)), f"{title}: {label}"
    assert n > 10, n


if __name__ == "__main__":
    command, file, *rest = sys.argv[1:]
    text = open(file, encoding="utf-8").read()
    if command == "check":
        check(text)
    elif command == "dashboard":
        check_dashboard(rest[0], text)
    elif command == "names":
        print("\n".join(sorted(family.name for family in families(text))))
    else:
        print(f"{figure(text, command, **dict(word.split('=') for word in rest)):.0f}")
