"""What the API server of the tests knows about objects: failures, fields, selectors, patches, checks."""
import re


class Failure(Exception):
    def __init__(self, code, reason, message, details=None, after=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.details, self.after = code, reason, message, details, after

    def status(self):
        out = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
               "reason": self.reason, "code": self.code}
        if self.details or self.after:
            out["details"] = dict(self.details or {}, **({"retryAfterSeconds": self.after} if self.after else {}))
        return out


# ---- fields: what a pod has; ANY: not looked into. A list's items have the fields of its one element ----

ANY = None
KEYED = {"configMapKeyRef": ANY, "secretKeyRef": ANY, "fieldRef": ANY, "resourceFieldRef": ANY}
SECURITY = dict.fromkeys("allowPrivilegeEscalation capabilities privileged procMount readOnlyRootFilesystem runAsGroup "
                         "runAsNonRoot runAsUser seLinuxOptions seccompProfile windowsOptions".split())
CONTAINER = dict.fromkeys("args command envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe "
                          "resources restartPolicy startupProbe stdin stdinOnce terminationMessagePath "
                          "terminationMessagePolicy tty volumeDevices workingDir".split())
CONTAINER.update(securityContext=SECURITY, env=[{"name": ANY, "value": ANY, "valueFrom": KEYED}], volumeMounts=[
    dict.fromkeys("name mountPath mountPropagation readOnly subPath subPathExpr".split())])
VOLUME = dict.fromkeys("name awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir "
                       "ephemeral fc flexVolume gcePersistentDisk gitRepo glusterfs hostPath iscsi nfs "
                       "persistentVolumeClaim portworxVolume quobyte rbd scaleIO secret storageos vsphereVolume "
                       "image".split())
VOLUME["projected"] = {"defaultMode": ANY, "sources": [dict.fromkeys("configMap downwardAPI secret".split(), ANY)]}
VOLUME["projected"]["sources"][0]["serviceAccountToken"] = {"audience": ANY, "expirationSeconds": ANY, "path": ANY}
POD = dict.fromkeys("activeDeadlineSeconds affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks "
                    "ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname imagePullSecrets "
                    "nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
                    "resourceClaims restartPolicy runtimeClassName schedulerName schedulingGates serviceAccount "
                    "serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds "
                    "tolerations topologySpreadConstraints".split())
POD["securityContext"] = dict.fromkeys("fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxOptions "
                                       "seccompProfile supplementalGroups sysctls windowsOptions".split())
POD.update(containers=[CONTAINER], initContainers=[CONTAINER], volumes=[VOLUME])
META = dict.fromkeys("name generateName namespace labels annotations uid resourceVersion generation creationTimestamp "
                     "deletionTimestamp deletionGracePeriodSeconds finalizers managedFields selfLink".split())
META["ownerReferences"] = [dict.fromkeys("apiVersion kind name uid controller blockOwnerDeletion".split())]
OBJECTS = {"pods": {"apiVersion": ANY, "kind": ANY, "metadata": META, "spec": POD, "status": ANY}}


def prune(plural, obj):
    """Takes unknown fields out; returns their paths."""
    unknown = []

    def walk(fields, value, path):
        if fields is ANY:
            return
        if isinstance(fields, list):
            for i, item in enumerate(value if isinstance(value, list) else []):
                walk(fields[0], item, "%s[%d]" % (path, i))
        elif isinstance(value, dict):
            for name in list(value):
                if name not in fields:
                    unknown.append((path + "." + name).lstrip("."))
                    del value[name]
                else:
                    walk(fields[name], value[name], path + "." + name)
    walk(OBJECTS.get(plural, ANY), obj, "")
    return unknown


# ---- selectors ----

KEY = r"(?:[a-z0-9][a-z0-9.-]*/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"


def select_labels(text):
    """A function that says whether labels are selected."""
    tests = []
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", text or ""):
        part = part.strip()
        if m := re.fullmatch(r"(%s)\s+(in|notin)\s+\(([^)]*)\)" % KEY, part):
            values = [v.strip() for v in m[3].split(",")]
            tests.append(lambda l, k=m[1], v=values, yes=m[2] == "in": (l.get(k) in v) == yes)
        elif m := re.fullmatch(r"(%s)\s*(==?|!=)\s*(%s)" % (KEY, VALUE), part):
            tests.append(lambda l, k=m[1], v=m[3], yes=m[2] != "!=": (l.get(k) == v) == yes)
        elif m := re.fullmatch(r"(!?)\s*(%s)" % KEY, part):
            tests.append(lambda l, k=m[2], yes=not m[1]: (k in l) == yes)
        else:
            raise Failure(400, "BadRequest", "unable to parse requirement: found '%s'" % part)
    return lambda obj: all(t(obj["metadata"].get("labels") or {}) for t in tests)


def select_fields(text):
    tests = []
    for part in filter(None, (text or "").split(",")):
        m = re.fullmatch(r"([a-zA-Z.]+)(==?|!=)(.*)", part)
        if not m or m[1] not in ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"):
            raise Failure(400, "BadRequest", "field label not supported: %s" % part)
        tests.append((m[1].split("."), m[3], m[2] != "!="))
    return lambda obj: all(((obj.get(p[0]) or {}).get(p[1], "") == v) == yes for p, v, yes in tests)


# ---- patches ----

def merge(target, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


# ---- checks ----

def invalid(resource, name, field, message):
    raise Failure(422, "Invalid", '%s "%s" is invalid: %s: %s' % (resource.kind, name, field, message),
                  {"name": name, "kind": resource.kind, "causes": [
                      {"reason": "FieldValueInvalid", "message": message, "field": field}]})


def check_schema(resource, name, schema, value, path):
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    kind = schema.get("type")
    if kind and (not isinstance(value, kinds[kind]) or kind == "integer" and isinstance(value, bool)):
        invalid(resource, name, path, "must be of type %s" % kind)
    if "minimum" in schema and value < schema["minimum"]:
        invalid(resource, name, path, "should be greater than or equal to %d" % schema["minimum"])
    for field in schema.get("required", []):
        if field not in value:
            invalid(resource, name, (path + "." + field).lstrip("."), "Required value")
    for field, inner in (schema.get("properties") or {}).items():
        if isinstance(value, dict) and field in value:
            check_schema(resource, name, inner, value[field], (path + "." + field).lstrip("."))


def validate(resource, obj):
    meta = obj["metadata"]
    name = meta.get("name") or ""
    if resource.plural in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"):
        if not name or "/" in name:
            invalid(resource, name, "metadata.name", "Invalid value")
    elif not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name) or len(name) > 253:
        invalid(resource, name, "metadata.name", 'Invalid value: "%s": a lowercase RFC 1123 subdomain must consist of '
                "lower case alphanumeric characters, '-' or '.'" % name)
    for key, value in (meta.get("labels") or {}).items():
        if not re.fullmatch(KEY, key) or not isinstance(value, str) or not re.fullmatch(VALUE, value) or len(value) > 63:
            invalid(resource, name, "metadata.labels", "Invalid value: %r" % value)
    if resource.schema:
        check_schema(resource, name, resource.schema, obj, "")
    if resource.plural == "pods":
        if not obj.get("spec", {}).get("containers"):
            invalid(resource, name, "spec.containers", "Required value")
        volumes = {v["name"] for v in obj["spec"].get("volumes") or []}
        for i, container in enumerate(obj["spec"]["containers"] + (obj["spec"].get("initContainers") or [])):
            if not container.get("image"):
                invalid(resource, name, "spec.containers[%d].image" % i, "Required value")
            for mount in container.get("volumeMounts") or []:
                if mount["name"] not in volumes:
                    invalid(resource, name, "spec.containers[%d].volumeMounts" % i, 'Not found: "%s"' % mount["name"])
    if resource.plural == "leases":
        for field in ("acquireTime", "renewTime"):
            text = obj.get("spec", {}).get(field)
            if text is not None and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text):
                raise Failure(400, "BadRequest", "Lease in version \"v1\" cannot be handled as a Lease: parsing time %r"
                              % text)
        if obj.get("spec", {}).get("leaseDurationSeconds", 1) <= 0:
            invalid(resource, name, "spec.leaseDurationSeconds", "must be greater than 0")


def validate_update(resource, old, new):
    if resource.plural != "pods":
        return

    def fixed(pod):
        spec = {k: v for k, v in pod["spec"].items() if k not in ("activeDeadlineSeconds", "tolerations", "nodeName",
                                                                  "terminationGracePeriodSeconds")}
        for field in ("containers", "initContainers"):
            spec[field] = [dict(c, image="") for c in spec.get(field) or []]
        return spec
    if fixed(old) != fixed(new):
        invalid(resource, old["metadata"]["name"], "spec", "Forbidden: pod updates may not change fields other than "
                "`spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, "
                "`spec.tolerations` (only additions to existing tolerations), `spec.terminationGracePeriodSeconds`")
