"""Why the real v1.20.2 and ours answer differently where both are right: sixteen minor versions lie between them.

Every difference that ``comparison`` finds has to be explained by one of ``CAUSES``, and every cause has to explain one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.clients.kubectl_session.comparison import ABSENT, Difference

NONE = re.escape(ABSENT)
ANY = ".*"
OWNERS = r".*\.managedFields\[.*\]"
POD = r"(\.items\[\d+\])?"


@dataclass(frozen=True)
class Cause:
    """What a release changed, and what that looks like: regular expressions for the whole of what a difference is."""

    release: str
    what: str
    step: str
    place: str
    real: str = NONE
    ours: str = NONE

    def explains(self, difference: Difference) -> bool:
        """Whether it is this that one sees."""
        return all(
            re.fullmatch(pattern, text, re.DOTALL) is not None
            for pattern, text in (
                (self.step, difference.step),
                (self.place, difference.place),
                (self.real, difference.real),
                (self.ours, difference.ours),
            )
        )


def served(release: str, kinds: str, what: str = "new APIs") -> Cause:
    """Lines of api-resources that ours has and the real one has not."""
    return Cause(release, what, "what is served", "out", ours=rf"({kinds})  .*")


def moved(release: str, kinds: str, old: str, new: str) -> Cause:
    """Lines of api-resources that name another version."""
    return Cause(
        release,
        "served in another version",
        "what is served",
        "out",
        rf"({kinds})  .*{old}  .*",
        rf"({kinds})  .*{new}  .*",
    )


def field(release: str, path: str, value: str, what: str) -> Cause:
    """A field of objects that the real one does not know."""
    return Cause(release, what, ANY, path, ours=value)


CAUSES: tuple[Cause, ...] = (
    # What is served.
    moved("v1.21", "cronjobs", "batch/v1beta1", "batch/v1"),
    moved("v1.21", "endpointslices", "discovery.k8s.io/v1beta1", "discovery.k8s.io/v1"),
    moved("v1.21", "poddisruptionbudgets", "policy/v1beta1", "policy/v1"),
    moved("v1.23", "horizontalpodautoscalers", "autoscaling/v1", "autoscaling/v2"),
    moved("v1.29", "flowschemas|prioritylevelconfigurations", "v1beta1", "flowcontrol.apiserver.k8s.io/v1"),
    Cause(
        "v1.23",
        "services are deleted by the list",
        "what is served",
        "out",
        "services  .*",
        "services  .*,deletecollection,.*",
    ),
    served("v1.24", "csistoragecapacities"),
    served("v1.28", "selfsubjectreviews"),
    served("v1.30", "validatingadmissionpolicies|validatingadmissionpolicybindings"),
    served("v1.33", "ipaddresses|servicecidrs"),
    served("v1.34", "deviceclasses|resourceclaims|resourceclaimtemplates|resourceslices|volumeattributesclasses"),
    served("v1.36", "mutatingadmissionpolicies|mutatingadmissionpolicybindings"),
    Cause("v1.22", "APIs that were removed", "what is served", "out", "ingresses  ing  extensions/v1beta1  .*"),
    Cause("v1.25", "APIs that were removed", "what is served", "out", "podsecuritypolicies  .*"),
    Cause(
        "v1.28",
        "everybody may ask who they are",
        "what jane may",
        "out",
        ours=r"selfsubjectreviews.authentication.k8s.io .*",
    ),
    # What is shown.
    Cause(
        "v1.35",
        "the architecture beside the kernel",
        "nodes in full",
        "out",
        r"node-\d  .*  simulated  .*",
        r"node-\d  .*  simulated \(amd64\)  .*",
    ),
    Cause("v1.35", "no count of an account's secrets", "service accounts", "out", "NAME  SECRETS  AGE", "NAME  AGE"),
    Cause(
        "v1.35", "no count of an account's secrets", "service accounts", "out", "default  1  <age>", "default  <age>"
    ),
    Cause(
        "v1.31",
        "pods that have ended are shown as that, not as Terminating",
        "what the watch has seen of it",
        "out",
        "solo  0/1  Terminating  .*",
        "solo  0/1  Completed  .*",
    ),
    Cause(
        "v1.30",
        "jobs have a status",
        "sets and jobs in full",
        "out",
        "NAME  COMPLETIONS  .*",
        "NAME  STATUS  COMPLETIONS  .*",
    ),
    Cause(
        "v1.30",
        "jobs have a status",
        "sets and jobs in full",
        "out",
        "job.batch/sums  2/2  .*",
        "job.batch/sums  Complete  2/2  .*",
    ),
    Cause(
        "v1.22",
        "how long a certificate should last",
        "the request",
        "out",
        "NAME  AGE  SIGNERNAME  REQUESTOR  CONDITION",
        "NAME  AGE  SIGNERNAME  REQUESTOR  REQUESTEDDURATION  CONDITION",
    ),
    Cause(
        "v1.22",
        "how long a certificate should last",
        "the request",
        "out",
        "jane  .*  admin  Pending",
        "jane  .*  admin  <none>  Pending",
    ),
    # What is refused, and how that is said.
    Cause(
        "v1.25",
        "the server checks fields",
        "apply a misspelt field",
        "err",
        'error: error validating "misspelt.yaml": .*',
    ),
    Cause(
        "v1.25",
        "the server checks fields",
        "apply a misspelt field",
        "err",
        ours='Error from server .* strict decoding error: unknown field "spec.replicaz"',
    ),
    Cause(
        "v1.34",
        "values in errors are JSON",
        "create what cannot be|a patch to what cannot be",
        "err",
        r"(?P<at>.*: Invalid value: )map\[string\]string.*",
        r".*: Invalid value: {.*",
    ),
    Cause(
        "v1.34",
        "values in errors are JSON",
        "a patch to what cannot be",
        "err",
        r"\* spec.selector: Invalid value: v1.LabelSelector{.*}: field is immutable",
        r'\* spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable',
    ),
    Cause(
        "v1.22",
        "the grace period of a pod may become positive",
        "replace what is fixed",
        "err",
        "The Pod .* pod updates may not change fields other than .*",
        "The Pod .* pod updates may not change fields other than .*`spec.terminationGracePeriodSeconds` .*",
    ),
    Cause(
        "v1.34",
        "what would change in a pod is shown as JSON, which ours leaves out",
        "replace what is fixed",
        "err",
        r"([-+]?\s.*|)",
    ),
    Cause(
        "v1.29",
        "each conflict has its own path, not the last one's",
        "a deployment from the other side",
        "err",
        r'- .spec.template.spec.containers\[name="main"\].resources.requests.memory',
    ),
    Cause(
        "v1.29",
        "each conflict has its own path, not the last one's",
        "a deployment from the other side",
        "err",
        ours=r'- .spec.template.spec.containers\[name="main"\].(env\[name="MODE"\].value|resources.limits.cpu)',
    ),
    Cause(
        "v1.22",
        "structs are owned as a whole",
        "a deployment from the other side",
        "err",
        ours=r'(- .*\.valueFrom.fieldRef|conflicts with "kubectl-patch" using apps/v1:)',
    ),
    Cause(
        "v1.22",
        "structs are owned as a whole",
        "a deployment from the other side",
        "err",
        'error: Apply failed with 4 conflicts: conflicts with "kubectl-patch" using apps/v1:',
        'error: Apply failed with 5 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:',
    ),
    # Who owns what.
    Cause(
        "v1.21",
        "who writes an object owns nothing of its status",
        "the namespace as YAML",
        OWNERS + r"\.fieldsV1\.f:status\.f:phase",
        "{}",
    ),
    Cause("v1.22", "managers of subresources are told apart", ANY, OWNERS + r"\.subresource", ours="status|scale"),
    Cause(
        "v1.22",
        "structs are owned as a whole",
        ANY,
        OWNERS + r"\.fieldsV1.*\.(f:fieldRef|f:nodeSelector|k:{\"uid\":\"<uid>\"}|f:selector)(\..*)?",
        "{}|" + NONE,
        "{}|" + NONE,
    ),
    Cause(
        "v1.22",
        "a scale is owned like the object",
        "who owns the deployment",
        r"\.metadata\.managedFields\[kubectl-patch Update\]\..*",
        ours=ANY,
    ),
    Cause("v1.25", "a manager that changed nothing has no time", "who owns .*", OWNERS + r"\.time", "<time>"),
    # Fields.
    field(
        "v1.21",
        rf"(\.metadata\.labels|{OWNERS}\.fieldsV1\.f:metadata\.f:labels)\.(f:kubernetes\.io/metadata\.name|kubernetes\.io/metadata\.name|\.)",
        "shop|{}",
        "namespaces are labelled with their names",
    ),
    Cause(
        "v1.21",
        "namespaces are labelled with their names",
        "describe the namespace",
        "out",
        "Labels:  <none>",
        "Labels:  kubernetes.io/metadata.name=shop",
    ),
    Cause("v1.34", "no creation time in templates", ANY, r".*\.spec\.template\.metadata\.creationTimestamp", "None"),
    Cause("v1.34", "no creation time in templates", "what apply would do", "out", r"\+  creationTimestamp: null"),
    Cause("v1.34", "no creation time in templates", "what apply would do|what would change", "out", r"@@ -.* @@"),
    Cause("v1.34", "no creation time in templates", "what apply would do|what would change", "out", ours=r"@@ -.* @@"),
    field("v1.21", r".*\.spec\.(ipFamilies\[0\]|ipFamilyPolicy)", "IPv4|SingleStack", "services of two families"),
    Cause(
        "v1.21",
        "services of two families",
        "describe the .*service",
        "out",
        "IP Families:  <none>",
        "IP Families:  IPv4",
    ),
    Cause("v1.21", "services of two families", "describe the .*service", "out", ours="IP Family Policy:  SingleStack"),
    field("v1.22", r".*\.spec\.internalTrafficPolicy", "Cluster", "traffic within the cluster"),
    Cause(
        "v1.22", "traffic within the cluster", "describe the .*service", "out", ours="Internal Traffic Policy:  Cluster"
    ),
    Cause(
        "v1.22", "traffic within the cluster", "what apply would do", "out", ours=r"\+  internalTrafficPolicy: Cluster"
    ),
    Cause(
        "v1.23",
        "a service that is tried out gets its address",
        "what apply would do",
        "out",
        ours=r"\+  (clusterIP: <cluster IP>|clusterIPs:|- <cluster IP>)",
    ),
    Cause(
        "v1.21",
        "services of two families",
        "what apply would do",
        "out",
        ours=r"\+  (ipFamilies:|- IPv4|ipFamilyPolicy: SingleStack)",
    ),
    Cause("v1.23", "jobs have a generation", "sets and jobs as YAML", r"\.items\[1\]\.metadata\.generation", ours="1"),
    Cause(
        "v1.34",
        "pods have a generation",
        ".*(pod|it runs|its orphans).*",
        rf"{POD}\.(metadata\.generation|status\.(conditions\[\w+\]\.)?observedGeneration)",
        ours=r"\d",
    ),
    field(
        "v1.34",
        OWNERS + r"\.fieldsV1\.f:status\.(f:conditions\..*)?f:observedGeneration",
        "{}",
        "pods have a generation",
    ),
    field("v1.29", rf"{POD}\.status\.hostIPs\[0\]\.ip", r"10\.64\..*", "pods tell all addresses of their node"),
    field("v1.29", OWNERS + r"\.fieldsV1\.f:status\.f:hostIPs", "{}", "pods tell all addresses of their node"),
    field(
        "v1.33",
        rf"{POD}\.status\.containerStatuses\[0\]\.(allocatedResources|resources)\..*",
        ANY,
        "containers tell what they have got",
    ),
    field("v1.23", r"(\.items\[2\])?\.status\.availableReplicas", "0", "stateful sets count available pods"),
    field("v1.22", r".*\.updateStrategy\.rollingUpdate\.maxSurge", "0", "daemon sets may surge"),
    field(
        "v1.27",
        r".*\.persistentVolumeClaimRetentionPolicy\.when(Deleted|Scaled)",
        "Retain",
        "stateful sets say what becomes of their claims",
    ),
    field(
        "v1.22",
        r".*\.items\[1\]\.spec\.(completionMode|suspend)",
        "NonIndexed|False",
        "jobs with an index, jobs that pause",
    ),
    field(
        "v1.29", r".*\.items\[1\]\.spec\.podReplacementPolicy", "TerminatingOrFailed", "jobs say when pods are replaced"
    ),
    field("v1.31", r".*\.items\[1\]\.spec\.manualSelector", "False", "jobs say that their selector is generated"),
    field("v1.27", r".*\.items\[\d\]\.spec\..*abels\.batch\.kubernetes\.io/.*", ANY, "labels of jobs have a prefix"),
    Cause(
        "v1.27",
        "labels of jobs have a prefix",
        "sets and jobs as YAML",
        r".*\.spec\.selector\.matchLabels\.controller-uid",
        "<uid>",
    ),
    Cause(
        "v1.27",
        "labels of jobs have a prefix",
        "describe the job",
        "out",
        "Selector:  controller-uid=<uid>",
        "Selector:  batch.kubernetes.io/controller-uid=<uid>",
    ),
    Cause("v1.27", "labels of jobs have a prefix", "describe the job", "out", ours=r" +batch.kubernetes.io/.*"),
    Cause(
        "v1.22",
        "jobs with an index, jobs that pause",
        "describe the job",
        "out",
        ours="Completion Mode:  NonIndexed|Suspend:  false",
    ),
)


def explain(found: Iterable[Difference]) -> tuple[list[Difference], list[Cause]]:
    """What no cause explains, and the causes that explain nothing."""
    unused = list(CAUSES)
    unexplained = []
    for difference in found:
        causes = [cause for cause in CAUSES if cause.explains(difference)]
        if not causes:
            unexplained.append(difference)
        unused = [cause for cause in unused if cause not in causes]
    return unexplained, unused
