"""The page in a real browser: every view by clicks and keys."""

import time

import pytest
from tests.tables import cases
from tests.ui.browser import Browser, Tab
from tests.ui.conftest import MARKUP, Cluster, revision_of, show, wait_past

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]

VIEWS = {
    "cluster": ("cluster", "Cluster", ".node .signs span"),
    "workloads": ("workloads", "Workloads", ".bar"),
    "events": ("events", "Events", "tbody tr"),
    "controllers": ("controllers", "Controllers", "tbody tr"),
    "scheduler": ("scheduler", "Scheduler", "tbody tr"),
    "all kinds": ("search", "All kinds", ".found li"),
    "search": ("search?q=web", "Search: web", ".found li"),
    "a Deployment": ("object/apps/deployments/default/web", "web", "pre"),
    "a Node": ("object/-/nodes/node-0", "node-0", "pre"),
    "a Pod": ("object/-/pods/default/huge", "huge", "pre"),
}


def test_a_link_opens_the_page_once(browser: Browser, cluster: Cluster, tab: Tab) -> None:
    link = cluster.new_link()
    tab.go(link)
    tab.find("h1", "Cluster")
    tab.find(".node", "node-0")
    assert tab.run("location.hash") == "#/cluster"
    assert "token" not in tab.run("JSON.stringify(history.state) + document.referrer + location.href")
    other = browser.open()
    other.go(link)
    other.find("[role=alert]", "has been used already")
    other.click("#link")
    other.write(cluster.new_link())
    other.click("button", "Open")
    other.find(".node", "node-0")
    other.close()


def test_a_cookie_alone_opens_nothing(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    script = "fetch('api/session', {headers: HEADERS}).then((answer) => answer.status)"
    key = "{'X-Pilothouse-Key': localStorage.getItem('pilothouse-key')}"
    assert tab.run(script.replace("HEADERS", key)) == 200
    assert tab.run(script.replace("HEADERS", "{}")) == 401
    assert "pilothouse" not in tab.run("document.cookie")
    tab.wait("true")
    tab.errors.clear()  # the browser reports the 401


def test_nodes_lead_to_their_pods(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.find(".summary", "3 nodes, 3 ready")
    tab.find(".homeless", "huge")
    assert "pods: " in tab.run("document.querySelector('.node').getAttribute('aria-label')")
    tab.click(".chip", "failing")
    tab.find(".none", "No node fits")
    tab.click(".chip", "failing")
    tab.click(".node", "node-1")
    tab.find("h1", "node-1")
    tab.click(".owned a", "agent")
    tab.find(".about", "on node node-1")


def test_workloads_show_what_they_own(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "workloads", "Workloads")
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"):
        tab.find(".workload h2", kind)
    assert tab.run("document.querySelectorAll('.workload .owned').length") == 0
    tab.click(".workload:has(h2 a[href*='deployments/default/web']) summary")
    tab.find(".owned li", "ReplicaSet web-")
    tab.wait("document.querySelectorAll('.owned .owned li').length === 3")
    tab.click(".owned .owned a")
    tab.find("h1", "Pod")
    tab.click(".about a", "web-")
    tab.find("h1", "ReplicaSet")


def test_a_rollout_moves_its_bars(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "workloads", "Workloads")
    tab.run("""window.seen = new Set(); setInterval(() => {
      const bars = document.querySelectorAll(".workload:has(h2 a[href*='deployments/default/web']) .bar");
      window.seen.add([...bars].map((bar) => bar.textContent).join(" | "));
    }, 20)""")
    template = {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}
    cluster.request("PATCH", "/apis/apps/v1/namespaces/default/deployments/web", {"spec": {"template": template}})
    tab.wait("[...seen].some((text) => /revision 2.*revision 1/.test(text))")
    tab.wait("/^revision 23 of 3 ready$/.test([...seen].at(-1))")


def test_workloads_say_what_rejects_their_pods(cluster: Cluster, tab: Tab) -> None:
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "full"}})
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    cluster.request("POST", "/api/v1/namespaces/full/resourcequotas", quota)
    pod = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"selector": {"matchLabels": {"app": "db"}}, "template": pod, "serviceName": "db"}
    cluster.request("POST", "/apis/apps/v1/namespaces/full/statefulsets", {"metadata": {"name": "db"}, "spec": spec})
    show(tab, cluster, "workloads", "Workloads")
    tab.find(".workload .note", "FailedCreate: Create Pod db-0 in StatefulSet db failed error: ")
    cluster.request("DELETE", "/api/v1/namespaces/full")


def test_taints_of_a_node_are_lines(cluster: Cluster, tab: Tab) -> None:
    taints = [
        {"key": "example.com/rotate", "value": "now", "effect": "NoSchedule"},
        {"key": "b", "effect": "NoSchedule"},
    ]
    cluster.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"taints": taints}})
    show(tab, cluster, "cluster", "Cluster")
    tab.find(".node .line", "b:\u200bNoSchedule")
    lines = "[...document.querySelectorAll('.node .line')].map((line) => line.textContent.replaceAll('\u200b', ''))"
    assert tab.run(lines) == ["example.com/rotate:NoSchedule", "b:NoSchedule"]
    cluster.request("PATCH", "/api/v1/nodes/node-2", {"spec": {"taints": None}})


def test_events_lead_to_their_objects(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "events", "Events")
    tab.find("td", "Started")
    tab.click("#warnings")
    tab.wait("![...document.querySelectorAll('td')].some((cell) => cell.textContent.includes('Started'))")
    tab.find("td", MARKUP)
    tab.click("tr:has(td) a", "huge")
    tab.find("h1", "huge")


def test_controllers_are_shown_with_their_queues(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "controllers", "Controllers")
    tab.find("tbody tr", "deployment-controller")
    tab.press("/")
    tab.write("daemonset")
    tab.wait("[...document.querySelectorAll('tbody th')].every((cell) => cell.textContent === 'daemonset-controller')")
    assert tab.run("Number(document.querySelector('tbody tr').children[8].textContent)") > 0


def test_the_scheduler_says_what_pods_wait_for(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "scheduler", "Scheduler")
    tab.find(".summary", "1 pod waits")
    tab.find(".reasons", "3 Insufficient cpu")
    tab.find("tbody tr", "web-")
    tab.click("tbody a", "node-")
    tab.find("h1", "Node")


def test_an_object_has_yaml_events_history_and_why(cluster: Cluster, tab: Tab) -> None:
    cluster.request("PATCH", "/apis/apps/v1/namespaces/default/statefulsets/db", {"spec": {"replicas": 1}})
    show(tab, cluster, "object/apps/statefulsets/default/db", "db")
    tab.click("#tab-yaml")
    tab.find("pre", "serviceName: db")
    assert "managedFields" not in tab.run("document.querySelector('pre').textContent")
    tab.click("#managed")
    tab.find("pre", "managedFields:")
    tab.click("#tab-events")
    tab.find("#panel td", "SuccessfulCreate")
    tab.click("#tab-history")
    tab.find(".changes li", "spec.replicas")
    tab.find(".origin", "kubernetes-admin")
    tab.find(".origin", "statefulset-controller")
    tab.press("Tab")
    tab.run("document.querySelector('#tab-history').focus()")
    tab.press("ArrowRight")
    tab.find("#panel", "statefulset/db: ")
    tab.find(".tree, #panel", "kubernetes-admin")


def test_values_of_secrets_are_not_shown(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "object/-/secrets/default/login", "login")
    tab.click("#tab-yaml")
    tab.find("pre", "password: (hidden)".replace("(hidden)", '"(hidden)"'))
    assert "correct" not in tab.run("document.body.textContent")


def test_text_is_text(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "object/-/configmaps/default/settings", "settings")
    tab.click("#tab-yaml")
    tab.find("pre", MARKUP)
    tab.find("pre", "lines: |\n    one\n    two\n")
    assert tab.run("document.querySelectorAll('main img, main script').length") == 0
    tab.click("#tab-events")
    tab.find("#panel td", MARKUP)
    show(tab, cluster, f"search?q={MARKUP.replace('=', '%3D')}", "Search: <img")
    tab.find(".summary", "0 objects")


def test_the_slider_shows_the_past(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    wait_past(tab, 8)
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    spec = {"nodeSelector": {"no": "where"}, "containers": [{"name": "a", "image": "b"}]}
    cluster.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "late"}, "spec": spec})
    tab.find(".homeless", "late")
    tab.run("document.querySelector('#moment').focus()")
    for _ in range(6):
        tab.press("ArrowLeft")
    tab.find("#past", "In the past")
    tab.wait("!document.querySelector('.homeless').textContent.includes('late')")
    then = revision_of(tab.run("document.querySelector('#past').textContent"))
    tab.press("2")
    tab.find("h1", "Workloads")
    tab.find("#past", f"resourceVersion {then}")
    tab.call("Page.reload")
    tab.find("#past", "In the past")
    tab.click("#past button", "Back to now")
    tab.wait("document.querySelector('#past').hidden")
    tab.press("1")
    tab.find(".homeless", "late")
    cluster.request("DELETE", "/api/v1/namespaces/default/pods/late")
    tab.wait("!document.querySelector('.homeless').textContent.includes('late')")
    show(tab, cluster, "search?q=pod+late", "Search: pod late")
    tab.find(".summary", "0 objects with such a name, and 1 that was deleted")
    tab.click(".found a", "late")
    tab.find("[role=alert]", "has been deleted")


def test_a_moment_before_the_history_is_explained(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster?at=2020-01-01T00:00:00Z", "Cluster")
    tab.find("#past", "cannot be shown")
    tab.click("#past button", "Back to now")
    tab.find(".node", "node-0")
    tab.errors.clear()  # the browser reports the 410


def test_search_finds_objects_of_every_kind(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.press("/")
    tab.write("secret login")
    tab.press("Enter")
    tab.find(".summary", "1 object with such a name")
    tab.click(".found a", "login")
    tab.find("h1", "Secret login")
    tab.press("0")
    tab.click(".found a", "ConfigMap")
    tab.find(".found li", "settings")


def test_the_grid_of_nodes_has_arrow_keys(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.find(".node", "node-2")
    tab.run("document.querySelector('.node').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert tab.run("document.activeElement.dataset.key") == "/nodes/node-2"
    assert tab.run("document.querySelectorAll('.node[tabindex=\"0\"]').length") == 1
    tab.press("Enter")
    tab.find("h1", "node-2")


def test_keys_are_listed(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.press("?")
    tab.find("dialog[open]", "ten seconds into the past")
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog').open")
    for key, title in (("2", "Workloads"), ("3", "Events"), ("4", "Controllers"), ("5", "Scheduler"), ("1", "Cluster")):
        tab.press(key)
        tab.find("h1", title)
        tab.wait("document.activeElement.id === 'main'")


def test_the_first_tab_stop_skips_to_the_content(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.press("Tab")
    assert tab.run("document.activeElement.id") == "skip"
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'main'")


def test_dark_and_light(cluster: Cluster, tab: Tab) -> None:
    show(tab, cluster, "cluster", "Cluster")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(13, 17, 23)"
    assert tab.run(ground) == light
    tab.prefer(prefers_color_scheme="dark")
    assert tab.run(ground) == dark
    tab.click("#theme")
    assert tab.run(ground) == light
    tab.press("d")
    assert tab.run(ground) == dark
    tab.prefer(prefers_color_scheme="light")
    assert tab.run(ground) == dark
    tab.call("Page.reload")
    tab.find(".node", "node-0")
    assert tab.run(ground) == dark
    tab.press("d")
    assert tab.run(ground) == light


def test_nothing_moves_for_those_who_prefer_that(cluster: Cluster, tab: Tab) -> None:
    tab.prefer(prefers_reduced_motion="reduce")
    show(tab, cluster, "workloads", "Workloads")
    tab.find(".bar", "ready")
    assert tab.run("getComputedStyle(document.querySelector('.part')).transitionDuration") == "0s"


@cases("path, title, selector", VIEWS)
def test_views_fit_a_phone(cluster: Cluster, tab: Tab, path: str, title: str, selector: str) -> None:
    tab.size(360, 740)
    show(tab, cluster, path, title)
    tab.find(selector)
    assert tab.run("document.scrollingElement.scrollWidth") <= 360


def test_a_chain_of_causes_fits_a_phone(cluster: Cluster, tab: Tab) -> None:
    """Paths of fields are words without a place to break."""
    name = "along" * 20
    cluster.request("PATCH", "/api/v1/namespaces/default/configmaps/settings", {"data": {name: "1"}})
    tab.size(360, 740)
    show(tab, cluster, "object/-/configmaps/default/settings", "settings")
    tab.click("#tab-why")
    tab.find("[role=tabpanel]", "alongalong")
    assert tab.run("document.scrollingElement.scrollWidth") <= 360


@cases("path, title, selector", VIEWS)
def test_views_are_accessible(cluster: Cluster, tab: Tab, axe: str, path: str, title: str, selector: str) -> None:
    show(tab, cluster, path, title)
    tab.find(selector)
    tab.call("Runtime.evaluate", expression=axe)
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        assert violations(tab) == []


@cases("tab_id", {"events": "tab-events", "history": "tab-history", "why": "tab-why"})
def test_tabs_of_an_object_are_accessible(cluster: Cluster, tab: Tab, axe: str, tab_id: str) -> None:
    show(tab, cluster, "object/apps/deployments/default/web", "web")
    tab.click(f"#{tab_id}")
    tab.find("#panel :is(table, ol, ul)")
    tab.call("Runtime.evaluate", expression=axe)
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        assert violations(tab) == []


def test_the_past_is_accessible(cluster: Cluster, tab: Tab, axe: str) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.press("[")
    tab.find("#past", "In the past")
    tab.call("Runtime.evaluate", expression=axe)
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        assert violations(tab) == []


_VIOLATIONS = """axe.run({resultTypes: ["violations"]}).then(({violations, passes}) => [passes.length,
  violations.map((each) => `${each.id}: ${each.help}: ${each.nodes.map((node) => node.html).join(" ")}`)])"""


def violations(tab: Tab) -> list[str]:
    """What axe finds wrong by WCAG 2.1 AA, and by best practice."""
    time.sleep(0.35)  # colours and bars are in motion so long
    passed, results = tab.run(_VIOLATIONS)
    assert passed > 10
    assert isinstance(results, list)
    return results


def test_the_checks_of_accessibility_find_something(cluster: Cluster, tab: Tab, axe: str) -> None:
    show(tab, cluster, "cluster", "Cluster")
    tab.run("document.querySelector('main').append(document.createElement('input'))")
    tab.run("void (document.querySelector('.summary').style.color = '#aaa')")
    tab.call("Runtime.evaluate", expression=axe)
    assert {violation.partition(":")[0] for violation in violations(tab)} == {"color-contrast", "label"}
