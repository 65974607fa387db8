#!/usr/bin/env python3
"""A small Kubernetes API server for tests, on the standard library: storage, watches, rights, tokens and the controllers
that cubby relies on. Written after the API's own rules; contract.sh, which passes on real servers, keeps it honest.
usage: apiserver.py DIR [--port N]: makes certificates below DIR, serves HTTPS, and on a second port orders of tests; DIR/port has both.
POST /fault {"fault": "429|500|503|hang|cut|lost", "method": "POST", "path": "/pods", "count": 2}, POST /log, and etcd's
/v3/kv/compaction."""
import base64
import collections
import copy
import hashlib
import hmac
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from model import Failure, merge, prune, select_fields, select_labels, validate, validate_update

# group/version, plural, kind, in namespaces, has a generation
RESOURCES = [
    ("v1", "namespaces", "Namespace", False, False), ("v1", "pods", "Pod", True, False),
    ("v1", "serviceaccounts", "ServiceAccount", True, False), ("v1", "configmaps", "ConfigMap", True, False),
    ("v1", "secrets", "Secret", True, False), ("v1", "services", "Service", True, False),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, False),
    ("v1", "resourcequotas", "ResourceQuota", True, False), ("v1", "nodes", "Node", False, False),
    ("events.k8s.io/v1", "events", "Event", True, False), ("coordination.k8s.io/v1", "leases", "Lease", True, False),
    ("apps/v1", "statefulsets", "StatefulSet", True, True),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True, True),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", True, False),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True, False),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False, False),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", False, False),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False, True),
    ("authentication.k8s.io/v1", "tokenreviews", "TokenReview", False, False),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, False),
]
API_AUDIENCE = "https://kubernetes.default.svc"
HISTORY = 2000
BOOKMARK_S = 1.0


def now(micro=False):
    t = time.time()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t))
    return text + (".%06dZ" % (t % 1 * 1e6) if micro else "Z")


class Resource:
    def __init__(self, version, plural, kind, namespaced, generation, schema=None):
        self.version, self.plural, self.kind, self.namespaced = version, plural, kind, namespaced
        self.generation, self.schema = generation, schema
        self.group = version.split("/")[0] if "/" in version else ""


class Store:
    """Objects by (resource, namespace, name), one counter of versions, the last events."""

    def __init__(self):
        self.lock = threading.Condition()
        self.version = 100
        self.objects = {}
        self.history = collections.deque()
        self.compacted = 0
        self.resources = {(r[0], r[1]): Resource(*r) for r in RESOURCES}

    def key(self, resource, namespace, name):
        return (resource.version, resource.plural, namespace or "", name)

    def event(self, kind, resource, old, new):
        self.history.append((int(new["metadata"]["resourceVersion"]), kind, resource.version, resource.plural, old, new))
        while len(self.history) > HISTORY:
            self.compacted = self.history.popleft()[0]
        self.lock.notify_all()

    def put(self, resource, obj, old):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        meta = obj["metadata"]
        self.objects[self.key(resource, meta.get("namespace"), meta["name"])] = obj
        self.event("MODIFIED" if old else "ADDED", resource, old, obj)
        return obj

    def remove(self, resource, obj):
        last = copy.deepcopy(obj)
        self.version += 1
        last["metadata"]["resourceVersion"] = str(self.version)
        self.objects.pop(self.key(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"]), None)
        self.event("DELETED", resource, obj, last)
        return last

    def all(self, version, plural, namespace=None):
        return [o for k, o in sorted(self.objects.items())
                if k[0] == version and k[1] == plural and (namespace is None or k[2] == namespace)]

    def get(self, version, plural, namespace, name):
        return self.objects.get((version, plural, namespace or "", name))


class Cluster:
    def __init__(self, directory):
        self.dir, self.store, self.key = directory, Store(), os.urandom(32)
        self.faults, self.requests = [], collections.deque(maxlen=2000)
        self.stopping = False

    # ---- tokens ----

    def sign(self, claims):
        body = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
                         for part in ({"alg": "HS256"}, claims))
        mac = hmac.new(self.key, body, hashlib.sha256).digest()
        return (body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()

    def read_token(self, token, audiences):
        """Claims and audiences in common; Failure with a reason as the server words them."""
        parts = token.split(".")
        if len(parts) != 3:
            raise Failure(401, "Unauthorized", "invalid bearer token")
        mac = hmac.new(self.key, ".".join(parts[:2]).encode(), hashlib.sha256).digest()
        if base64.urlsafe_b64encode(mac).rstrip(b"=").decode() != parts[2]:
            raise Failure(401, "Unauthorized", "invalid bearer token")
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
        common = [a for a in audiences if a in claims["aud"]]
        if not common:
            raise Failure(401, "Unauthorized", "[invalid bearer token, token audiences %s is invalid for the target "
                          "audiences %s]" % (claims["aud"], audiences))
        if claims["exp"] < time.time():
            raise Failure(401, "Unauthorized", "[invalid bearer token, service account token has expired]")
        account = self.store.get("v1", "serviceaccounts", claims["ns"], claims["sa"])
        pod = self.store.get("v1", "pods", claims["ns"], claims["pod"]) if claims.get("pod") else None
        if not account or account["metadata"]["uid"] != claims["said"] or \
                claims.get("pod") and (not pod or pod["metadata"]["uid"] != claims["poduid"]):
            raise Failure(401, "Unauthorized", "[invalid bearer token, service account token has been invalidated]")
        return claims, common

    def user_of_token(self, claims):
        name = "system:serviceaccount:%s:%s" % (claims["ns"], claims["sa"])
        user = {"username": name, "uid": claims["said"],
                "groups": ["system:serviceaccounts", "system:serviceaccounts:" + claims["ns"], "system:authenticated"]}
        if claims.get("pod"):
            user["extra"] = {"authentication.kubernetes.io/pod-name": [claims["pod"]],
                             "authentication.kubernetes.io/pod-uid": [claims["poduid"]]}
        return user

    # ---- rights ----

    def rules_match(self, rules, verb, group, resource, name):
        def has(values, value):
            return "*" in values or value in values
        return any(has(r.get("verbs", []), verb) and has(r.get("apiGroups", []), group) and
                   has(r.get("resources", []), resource) and (not r.get("resourceNames") or name in r["resourceNames"])
                   for r in rules)

    def allowed(self, user, verb, group, resource, namespace, name):
        if "system:masters" in user.get("groups", []):
            return True
        if resource == "selfsubjectaccessreviews":
            return True
        rbac = "rbac.authorization.k8s.io/v1"
        bindings = [(b, None) for b in self.store.all(rbac, "clusterrolebindings")]
        if namespace:
            bindings += [(b, namespace) for b in self.store.all(rbac, "rolebindings", namespace)]
        for binding, where in bindings:
            for subject in binding.get("subjects", []):
                own = subject.get("name")
                if subject["kind"] == "ServiceAccount":
                    own = "system:serviceaccount:%s:%s" % (subject.get("namespace"), own)
                if own != user["username"] and not (subject["kind"] == "Group" and own in user["groups"]):
                    continue
                ref = binding["roleRef"]
                role = self.store.get(rbac, "roles", where, ref["name"]) if ref["kind"] == "Role" else \
                    self.store.get(rbac, "clusterroles", None, ref["name"])
                if role and self.rules_match(role.get("rules") or [], verb, group, resource, name):
                    return True
        return False

    # ---- controllers; called with the lock held ----

    def settle(self):
        """What controllers do after a change: owners, StatefulSets, budgets, quotas. Until nothing changes."""
        for _ in range(50):
            before = self.store.version
            self.settle_owners()
            self.settle_sets()
            self.settle_budgets()
            self.settle_quotas()
            if self.store.version == before:
                return

    def settle_owners(self):
        uids = {o["metadata"]["uid"] for o in self.store.objects.values()}
        for key, obj in list(self.store.objects.items()):
            owners = obj["metadata"].get("ownerReferences") or []
            if owners and not any(o["uid"] in uids for o in owners) and not obj["metadata"].get("deletionTimestamp"):
                self.delete(self.store.resources[key[:2]], obj, {})

    def settle_sets(self):
        pods_resource = self.store.resources[("v1", "pods")]
        for owner in self.store.all("apps/v1", "statefulsets"):
            meta, spec = owner["metadata"], owner["spec"]
            want = spec.get("replicas", 1)
            pods = {p["metadata"]["name"]: p for p in self.store.all("v1", "pods", meta["namespace"])
                    if any(o["uid"] == meta["uid"] for o in p["metadata"].get("ownerReferences", []))}
            for ordinal in range(want):
                name = "%s-%d" % (meta["name"], ordinal)
                pod = pods.get(name)
                if pod and pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
                    self.store.remove(pods_resource, pod)
                    pod = None
                if not pod and not self.store.get("v1", "pods", meta["namespace"], name):
                    self.set_pod(owner, name)
            for name, pod in pods.items():
                if int(name.rsplit("-", 1)[1]) >= want and not pod["metadata"].get("deletionTimestamp"):
                    self.delete(pods_resource, pod, {})
            ready = sum(1 for p in pods.values() for c in p.get("status", {}).get("conditions", [])
                        if c["type"] == "Ready" and c["status"] == "True")
            status = {"replicas": len(pods), "readyReplicas": ready, "observedGeneration": meta.get("generation", 1)}
            if owner.get("status") != status:
                self.store.put(self.store.resources[("apps/v1", "statefulsets")], dict(owner, metadata=dict(meta),
                               status=status), owner)

    def set_pod(self, owner, name):
        meta, template = owner["metadata"], copy.deepcopy(owner["spec"]["template"])
        labels = dict(template.get("metadata", {}).get("labels") or {})
        labels["statefulset.kubernetes.io/pod-name"] = name
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            "name": name, "labels": labels, "annotations": template.get("metadata", {}).get("annotations") or {},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"],
                                 "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True}]}}
        pod["spec"]["hostname"] = name
        for claim in owner["spec"].get("volumeClaimTemplates") or []:
            own = "%s-%s" % (claim["metadata"]["name"], name)
            pod["spec"].setdefault("volumes", []).append(
                {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": own}})
            if not self.store.get("v1", "persistentvolumeclaims", meta["namespace"], own):
                self.create(self.store.resources[("v1", "persistentvolumeclaims")], meta["namespace"],
                            {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                             "metadata": {"name": own}, "spec": claim["spec"]}, {})
        try:
            self.create(self.store.resources[("v1", "pods")], meta["namespace"], pod, {})
        except Failure:
            pass  # a quota: tried again at the next change

    def settle_budgets(self):
        resource = self.store.resources[("policy/v1", "poddisruptionbudgets")]
        for budget in self.store.all("policy/v1", "poddisruptionbudgets"):
            meta, spec = budget["metadata"], budget["spec"]
            wanted = (spec.get("selector") or {}).get("matchLabels") or {}
            pods = [p for p in self.store.all("v1", "pods", meta["namespace"])
                    if all((p["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())]
            healthy = sum(1 for p in pods for c in p.get("status", {}).get("conditions", [])
                          if c["type"] == "Ready" and c["status"] == "True")
            least = spec["minAvailable"] if "minAvailable" in spec else len(pods) - spec.get("maxUnavailable", 1)
            status = {"currentHealthy": healthy, "desiredHealthy": least, "expectedPods": len(pods),
                      "disruptionsAllowed": max(0, healthy - least), "observedGeneration": meta["generation"]}
            if budget.get("status") != status:
                self.store.put(resource, dict(budget, metadata=dict(meta), status=status), budget)

    def settle_quotas(self):
        resource = self.store.resources[("v1", "resourcequotas")]
        for quota in self.store.all("v1", "resourcequotas"):
            namespace = quota["metadata"]["namespace"]
            used = {"pods": str(self.pods_counted(namespace))} if "pods" in quota["spec"].get("hard", {}) else {}
            status = {"hard": quota["spec"].get("hard", {}), "used": used}
            if quota.get("status") != status:
                self.store.put(resource, dict(quota, metadata=dict(quota["metadata"]), status=status), quota)

    def pods_counted(self, namespace):
        return sum(1 for p in self.store.all("v1", "pods", namespace)
                   if p.get("status", {}).get("phase") not in ("Failed", "Succeeded"))

    # ---- changes; called with the lock held ----

    def admit_pod(self, namespace, pod):
        name, spec = pod["metadata"]["name"], pod["spec"]
        account = spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", account)
        if not self.store.get("v1", "serviceaccounts", namespace, account):
            raise Failure(403, "Forbidden", 'pods "%s" is forbidden: error looking up service account %s/%s: '
                          'serviceaccount "%s" not found' % (name, namespace, account, account))
        for key, value in (("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("securityContext", {}),
                           ("schedulerName", "default-scheduler"), ("terminationGracePeriodSeconds", 30),
                           ("enableServiceLinks", True), ("preemptionPolicy", "PreemptLowerPriority"), ("priority", 0)):
            spec.setdefault(key, value)
        for container in spec.get("containers", []) + (spec.get("initContainers") or []):
            container.setdefault("terminationMessagePath", "/dev/termination-log")
            container.setdefault("terminationMessagePolicy", "File")
            container.setdefault("imagePullPolicy", "IfNotPresent")
            resources = container.setdefault("resources", {})
            if resources.get("limits"):
                resources.setdefault("requests", {})
                for what, most in resources["limits"].items():
                    resources["requests"].setdefault(what, most)
        for quota in self.store.all("v1", "resourcequotas", namespace):
            most, used = quota["spec"].get("hard", {}).get("pods"), self.pods_counted(namespace)
            if most is not None and used >= int(most):
                raise Failure(403, "Forbidden", 'pods "%s" is forbidden: exceeded quota: %s, requested: pods=1, used: '
                              "pods=%d, limited: pods=%s" % (name, quota["metadata"]["name"], used, most))
        pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}

    def create(self, resource, namespace, obj, query):
        meta = obj.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                raise Failure(400, "BadRequest", "the namespace of the provided object does not match the namespace "
                              "sent on the request")
            if not self.store.get("v1", "namespaces", None, namespace):
                raise Failure(404, "NotFound", 'namespaces "%s" not found' % namespace,
                              {"name": namespace, "kind": "namespaces"})
        validate(resource, obj)
        if self.store.get(resource.version, resource.plural, namespace if resource.namespaced else None, meta["name"]):
            raise Failure(409, "AlreadyExists", '%s "%s" already exists' % (resource.plural, meta["name"]),
                          {"name": meta["name"], "kind": resource.plural})
        meta.pop("resourceVersion", None)
        meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), now()
        if resource.generation:
            meta["generation"] = 1
        if resource.plural == "pods":
            self.admit_pod(namespace, obj)
        if resource.plural == "persistentvolumeclaims":
            obj["status"] = {"phase": "Pending"}
        if query.get("dryRun") == "All":
            meta["resourceVersion"] = str(self.store.version)
            return obj
        self.store.put(resource, obj, None)
        if resource.plural == "namespaces":
            obj["status"] = {"phase": "Active"}
            self.create(self.store.resources[("v1", "serviceaccounts")], meta["name"], {
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, {})
        if resource.plural == "customresourcedefinitions":
            spec = obj["spec"]
            for version in spec["versions"]:
                where = "%s/%s" % (spec["group"], version["name"])
                self.store.resources[(where, spec["names"]["plural"])] = Resource(
                    where, spec["names"]["plural"], spec["names"]["kind"], spec["scope"] == "Namespaced", True,
                    version.get("schema", {}).get("openAPIV3Schema"))
        return obj

    def update(self, resource, old, new, query, status_only=False):
        meta, before = new.setdefault("metadata", {}), old["metadata"]
        given = meta.get("resourceVersion")
        if given and given != before["resourceVersion"]:
            raise Failure(409, "Conflict", 'Operation cannot be fulfilled on %s "%s": the object has been modified; '
                          "please apply your changes to the latest version and try again" %
                          (resource.plural, before["name"]))
        for field in ("uid", "name", "namespace", "creationTimestamp"):
            if before.get(field) and meta.setdefault(field, before[field]) != before[field]:
                raise Failure(422, "Invalid", '%s "%s" is invalid: metadata.%s: Invalid value: "%s": field is immutable'
                              % (resource.kind, before["name"], field, meta[field]),
                              {"causes": [{"field": "metadata." + field, "message": "field is immutable"}]})
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(field, None)
            if field in before:
                meta[field] = before[field]
        if status_only:
            new = dict(copy.deepcopy(old), status=new.get("status"), metadata=copy.deepcopy(before))
        else:
            if "status" in old and resource.plural != "customresourcedefinitions":
                new["status"] = old["status"]
            validate(resource, new)
            validate_update(resource, old, new)
        new["apiVersion"], new["kind"] = resource.version, resource.kind
        if resource.generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = before.get("generation", 1) + 1
        unchanged = dict(new, metadata=dict(new["metadata"], resourceVersion=None)) == \
            dict(old, metadata=dict(before, resourceVersion=None))
        if unchanged or query.get("dryRun") == "All":
            return old if unchanged else new
        return self.store.put(resource, new, old)

    def delete(self, resource, obj, options):
        meta, wanted = obj["metadata"], options.get("preconditions") or {}
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) and wanted[field] != meta[field]:
                raise Failure(409, "Conflict", 'Operation cannot be fulfilled on %s "%s": the %s in the precondition (%s) '
                              "does not match the %s in record (%s). The object might have been deleted and then recreated"
                              % (resource.plural, meta["name"], field.upper(), wanted[field], field.upper(), meta[field]))
        if resource.plural == "namespaces":
            for key, inner in list(self.store.objects.items()):
                if key[2] == meta["name"]:
                    self.store.remove(self.store.resources[key[:2]], inner)
        if resource.plural == "customresourcedefinitions":
            for key in [k for k in self.store.resources if k[1] == obj["spec"]["names"]["plural"]]:
                for other in [k for k in self.store.objects if k[:2] == key]:
                    del self.store.objects[other]
                del self.store.resources[key]
        if resource.plural != "pods":
            return self.store.remove(resource, obj)
        grace = options.get("gracePeriodSeconds")
        if grace is None:
            grace = obj["spec"].get("terminationGracePeriodSeconds", 30)
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            grace = 0
        if meta.get("deletionTimestamp") and grace >= meta.get("deletionGracePeriodSeconds", 0) and grace > 0:
            return obj
        marked = copy.deepcopy(obj)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + grace))
        marked["metadata"].update(deletionTimestamp=stamp, deletionGracePeriodSeconds=grace)
        self.store.put(resource, marked, obj)
        return marked if grace else self.store.remove(resource, marked)


# ---- HTTP ----

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cluster = None

    def log_message(self, *_):
        pass

    def answer(self, code, body, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode() + b"\n"
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, failure):
        headers = [("Retry-After", str(failure.after))] if failure.after else []
        self.answer(failure.code, failure.status(), headers=headers)

    def who(self):
        bearer = self.headers.get("Authorization", "")
        if bearer.startswith("Bearer "):
            claims, _ = self.cluster.read_token(bearer[7:].strip(), [API_AUDIENCE])
            return self.cluster.user_of_token(claims)
        subject = (self.connection.getpeercert() or {}).get("subject", ())
        words = [pair for row in subject for pair in row]
        name = next((v for k, v in words if k == "commonName"), None)
        if not name:
            raise Failure(401, "Unauthorized", "Unauthorized")
        return {"username": name, "groups": [v for k, v in words if k == "organizationName"] + ["system:authenticated"]}

    def fault(self):
        """A fault that was asked for: True when the request is over."""
        with self.cluster.store.lock:
            self.cluster.requests.append("%s %s" % (self.command, self.path))
            hit = next((f for f in self.cluster.faults if f.get("method", self.command) == self.command and
                        f.get("path", "") in self.path), None)
            if hit:
                hit["count"] = hit.get("count", 1) - 1
                if hit["count"] <= 0:
                    self.cluster.faults.remove(hit)
        self.lost = bool(hit and hit["fault"] == "lost")
        if not hit or self.lost:
            return False
        if hit["fault"] in ("429", "500", "503"):
            reason = {"429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable"}[hit["fault"]]
            self.refuse(Failure(int(hit["fault"]), reason, "a fault that a test asked for",
                                after=hit.get("after", 1) if hit["fault"] != "500" else None))
            return True
        if hit["fault"] == "hang":
            time.sleep(hit.get("seconds", 60))
        self.close_connection = True
        return True

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        try:
            if self.fault():
                return
            self.user = self.who()
            self.route(raw)
        except Failure as failure:
            self.refuse(failure)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def body(self, raw, strict_of=None, query=None):
        try:
            obj = json.loads(raw)
            assert isinstance(obj, dict)
        except (ValueError, AssertionError):
            raise Failure(400, "BadRequest", "the object provided is unrecognized (must be of type Object): "
                          "couldn't get version/kind; json parse error")
        unknown = prune(strict_of, obj) if strict_of else []
        if unknown and (query or {}).get("fieldValidation") == "Strict":
            raise Failure(400, "BadRequest", "strict decoding error: " +
                          ", ".join('unknown field "%s"' % u for u in unknown))
        return obj

    def route(self, raw):
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        path = unquote(url.path)
        if path == "/version":
            return self.answer(200, {"major": "1", "minor": "26", "gitVersion": "v1.26.15", "platform": "linux/amd64"})
        if path in ("/readyz", "/healthz", "/livez"):
            return self.answer(200, b"ok", "text/plain; charset=utf-8")
        m = re.fullmatch(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/namespaces/(?P<ns>[^/]+)(?=/[^/]+))?"
                         r"(?:/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?)?/?", path)
        if not m:
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        version, plural, sub = m["core"] or m["group"], m["plural"], m["sub"]
        store = self.cluster.store
        if m["ns"] and plural in ("status", "finalize"):
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        if not plural:
            known = [r for r in store.resources.values() if r.version == version]
            if not known:
                return self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
            return self.answer(200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                                     "resources": [{"name": r.plural, "kind": r.kind, "namespaced": r.namespaced}
                                                   for r in known]})
        resource = store.resources.get((version, plural))
        group = version.split("/")[0] if "/" in version else ""
        watch = query.get("watch") in ("1", "true")
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete" if m["name"] else
                "deletecollection", "GET": "get" if m["name"] else "watch" if watch else "list"}[self.command]
        with store.lock:
            what = plural + ("/" + sub if sub else "")
            if not self.cluster.allowed(self.user, verb, group, what, m["ns"], m["name"]):
                raise Failure(403, "Forbidden", '%s is forbidden: User "%s" cannot %s resource "%s" in API group "%s"%s'
                              % (what, self.user["username"], verb, what, group,
                                 ' in the namespace "%s"' % m["ns"] if m["ns"] else " at the cluster scope"))
            if not resource:
                raise Failure(404, "NotFound", "the server could not find the requested resource")
            if not watch:
                answer = self.act(resource, m["ns"], m["name"], sub, query, raw)
                self.cluster.settle()
                answer = (answer[0], json.dumps(answer[1], separators=(",", ":")).encode() + b"\n")
        if watch:
            return self.watch(resource, m["ns"], m["name"], query)
        if self.lost:
            self.close_connection = True
            return None
        return self.answer(*answer)

    # ---- one request, with the lock held ----

    def act(self, resource, namespace, name, sub, query, raw):
        store, cluster = self.cluster.store, self.cluster
        if resource.plural == "tokenreviews":
            return 201, self.review(self.body(raw))
        if resource.plural == "selfsubjectaccessreviews":
            review = self.body(raw)
            a = review["spec"].get("resourceAttributes") or {}
            what = a.get("resource", "") + ("/" + a["subresource"] if a.get("subresource") else "")
            review["status"] = {"allowed": cluster.allowed(self.user, a.get("verb"), a.get("group", ""), what,
                                                           a.get("namespace"), a.get("name"))}
            return 201, review
        if not name:
            if self.command == "GET":
                return 200, self.list(resource, namespace, query)
            if self.command == "POST":
                obj = self.body(raw, resource.plural, query)
                for field, value in (("apiVersion", resource.version), ("kind", resource.kind)):
                    if obj.setdefault(field, value) != value:
                        raise Failure(400, "BadRequest", "the object provided does not match the expected %s" % field)
                return 201, cluster.create(resource, namespace, obj, query)
            raise Failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        obj = store.get(resource.version, resource.plural, namespace, name)
        if not obj:
            raise Failure(404, "NotFound", '%s "%s" not found' % (resource.plural, name),
                          {"name": name, "kind": resource.plural})
        if sub and sub != "status":
            return self.subresource(resource, obj, sub, query, raw)
        if self.command == "GET":
            return 200, obj
        if self.command == "DELETE":
            options = self.body(raw) if raw else {}
            if "gracePeriodSeconds" in query:
                options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
            gone = cluster.delete(resource, obj, options)
            return 200, gone if resource.plural == "pods" else {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": name, "kind": resource.plural, "uid": obj["metadata"]["uid"]}}
        if self.command == "PATCH":
            new = self.patched(resource, obj, query, raw)
        else:
            new = self.body(raw, resource.plural, query)
            if not new.get("metadata", {}).get("name"):
                raise Failure(400, "BadRequest", "the name of the object (%s based on URL) was undeterminable" % name)
        return 200, cluster.update(resource, obj, new, query, status_only=sub == "status")

    def patched(self, resource, obj, query, raw):
        kind = (self.headers.get("Content-Type") or "").split(";")[0]
        if kind not in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            raise Failure(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media "
                          "types include: application/json-patch+json, application/merge-patch+json, "
                          "application/apply-patch+yaml")
        new = merge(copy.deepcopy(obj), self.body(raw))
        prune(resource.plural, new)
        return new

    def review(self, review):
        spec = review["spec"]
        try:
            claims, common = self.cluster.read_token(spec.get("token", ""), spec.get("audiences") or [API_AUDIENCE])
            status = {"authenticated": True, "user": self.cluster.user_of_token(claims), "audiences": common}
        except Failure as failure:
            status = {"user": {}, "error": failure.message}
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "metadata": {"creationTimestamp": None}, "spec": spec, "status": status}

    def subresource(self, resource, obj, sub, query, raw):
        cluster, meta = self.cluster, obj["metadata"]
        if resource.plural == "serviceaccounts" and sub == "token":
            return 201, self.token(obj, self.body(raw))
        if resource.plural == "statefulsets" and sub == "scale":
            return 200, self.scale(resource, obj, raw)
        if resource.plural == "pods" and sub == "binding":
            if obj["spec"].get("nodeName"):
                raise Failure(409, "Conflict", 'pod %s is already assigned to node "%s"'
                              % (meta["name"], obj["spec"]["nodeName"]))
            bound = copy.deepcopy(obj)
            bound["spec"]["nodeName"] = self.body(raw)["target"]["name"]
            conditions = [c for c in bound["status"].get("conditions", []) if c["type"] != "PodScheduled"]
            bound["status"]["conditions"] = conditions + [{"type": "PodScheduled", "status": "True"}]
            cluster.store.put(resource, bound, obj)
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        if resource.plural == "pods" and sub == "eviction":
            for budget in cluster.store.all("policy/v1", "poddisruptionbudgets", meta["namespace"]):
                wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
                if all((meta.get("labels") or {}).get(k) == v for k, v in wanted.items()) and \
                        not budget.get("status", {}).get("disruptionsAllowed"):
                    raise Failure(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption "
                                  "budget.", {"causes": [{"reason": "DisruptionBudget"}]})
            cluster.delete(resource, obj, {})
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        raise Failure(404, "NotFound", "the server could not find the requested resource")

    def token(self, account, request):
        spec, meta = request.get("spec") or {}, account["metadata"]
        seconds = spec.get("expirationSeconds", 3600)
        if seconds < 600:
            raise Failure(422, "Invalid", "spec.expirationSeconds: may not specify a duration less than 10 minutes")
        claims = {"aud": spec.get("audiences") or [API_AUDIENCE], "ns": meta["namespace"], "sa": meta["name"],
                  "said": meta["uid"], "exp": time.time() + seconds}
        bound = spec.get("boundObjectRef")
        if bound:
            pod = self.cluster.store.get("v1", "pods", meta["namespace"], bound.get("name"))
            if not pod:
                raise Failure(404, "NotFound", 'pods "%s" not found' % bound.get("name"))
            if bound.get("uid") and pod["metadata"]["uid"] != bound["uid"]:
                raise Failure(409, "Conflict", 'Operation cannot be fulfilled on Pod "%s": the UID in the bound object '
                              "reference (%s) does not match the UID in record" % (bound["name"], bound["uid"]))
            claims.update(pod=pod["metadata"]["name"], poduid=pod["metadata"]["uid"])
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(claims["exp"]))
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": meta["name"]},
                "spec": spec, "status": {"token": self.cluster.sign(claims), "expirationTimestamp": stamp}}

    def scale(self, resource, obj, raw):
        def shown(owner):
            return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {
                k: owner["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion")},
                "spec": {"replicas": owner["spec"].get("replicas", 1)},
                "status": {"replicas": owner.get("status", {}).get("replicas", 0)}}
        if self.command == "GET":
            return shown(obj)
        wanted = merge(shown(obj), self.body(raw))
        if not isinstance(wanted["spec"].get("replicas"), int) or wanted["spec"]["replicas"] < 0:
            raise Failure(422, "Invalid", "spec.replicas: must be greater than or equal to 0")
        new = copy.deepcopy(obj)
        new["spec"]["replicas"] = wanted["spec"]["replicas"]
        new["metadata"]["resourceVersion"] = wanted["metadata"]["resourceVersion"]
        return shown(self.cluster.update(resource, obj, new, {}))

    # ---- lists and watches ----

    def selected(self, query, name):
        labels, fields = select_labels(query.get("labelSelector")), select_fields(query.get("fieldSelector"))
        return lambda obj: labels(obj) and fields(obj) and (not name or obj["metadata"]["name"] == name)

    def list(self, resource, namespace, query):
        store, chosen = self.cluster.store, self.selected(query, None)
        items = [o for o in store.all(resource.version, resource.plural, namespace) if chosen(o)]
        version, meta = store.version, {}
        if query.get("continue"):
            try:
                version, start = json.loads(base64.urlsafe_b64decode(query["continue"]))
            except ValueError:
                raise Failure(400, "BadRequest", "continue key is not valid")
            if version < store.compacted:
                raise Failure(410, "Expired", "The provided continue parameter is too old to display a consistent list "
                              "result.")
            items = [o for o in items if [o["metadata"].get("namespace", ""), o["metadata"]["name"]] > start]
        limit = int(query.get("limit") or 0)
        if limit and len(items) > limit:
            last = items[limit - 1]["metadata"]
            meta["remainingItemCount"] = len(items) - limit
            meta["continue"] = base64.urlsafe_b64encode(json.dumps(
                [version, [last.get("namespace", ""), last["name"]]]).encode()).decode()
            items = items[:limit]
        meta["resourceVersion"] = str(version)
        bare = [{k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in items]
        return {"kind": resource.kind + "List", "apiVersion": resource.version, "metadata": meta, "items": bare}

    def chunk(self, obj):
        data = json.dumps(obj, separators=(",", ":")).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def watch(self, resource, namespace, name, query):
        store, chosen = self.cluster.store, self.selected(query, name)
        since = query.get("resourceVersion") or "0"
        if not since.isdigit():
            raise Failure(500, "", "Internal error: strconv.ParseUint: parsing \"%s\": invalid syntax" % since)
        since, first = int(since), []
        end = time.monotonic() + int(query.get("timeoutSeconds") or 1800)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with store.lock:
            if since == 0:
                first = [o for o in store.all(resource.version, resource.plural, namespace) if chosen(o)]
                since = store.version
            elif since < store.compacted:
                first = None
        if first is None:
            self.chunk({"type": "ERROR", "object": Failure(
                410, "Expired", "too old resource version: %d (%d)" % (since, store.compacted)).status()})
        else:
            for obj in first:
                self.chunk({"type": "ADDED", "object": obj})
            self.follow(resource, namespace, chosen, since, end, query.get("allowWatchBookmarks") in ("1", "true"))
        self.wfile.write(b"0\r\n\r\n")

    def follow(self, resource, namespace, chosen, since, end, bookmarks):
        store, marked = self.cluster.store, time.monotonic()
        while time.monotonic() < end and not self.cluster.stopping:
            with store.lock:
                if store.version <= since:
                    store.lock.wait(min(0.5, max(0, end - time.monotonic())))
                if since < store.compacted:
                    return
                events = [e for e in store.history if e[0] > since]
                since = max(since, store.version)
            for _, kind, version, plural, old, new in events:
                if (version, plural) != (resource.version, resource.plural) or \
                        namespace and new["metadata"].get("namespace") != namespace:
                    continue
                before, after = bool(old) and chosen(old), kind != "DELETED" and chosen(new)
                if before or after:
                    shown = new if after or kind == "DELETED" else dict(old, metadata=dict(
                        old["metadata"], resourceVersion=new["metadata"]["resourceVersion"]))
                    self.chunk({"type": "MODIFIED" if before and after else "ADDED" if after else "DELETED",
                                "object": shown})
            if bookmarks and time.monotonic() >= marked + BOOKMARK_S:
                marked = time.monotonic()
                self.chunk({"type": "BOOKMARK", "object": {"kind": resource.kind, "apiVersion": resource.version,
                                                           "metadata": {"resourceVersion": str(since),
                                                                        "creationTimestamp": None}}})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def get_request(self):
        sock, address = self.socket.accept()
        sock.settimeout(120)
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (OSError, ssl.SSLError)):
            super().handle_error(request, client_address)


def certificates(directory):
    """ca.crt, server and administrator: DIR/{server,admin}.{crt,key}."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *ec, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test-ca")
    for name, subject, more in (("server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
                                ("admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth")):
        with open(os.path.join(directory, name + ".ext"), "w") as out:
            out.write(more + "\n")
        openssl("req", *ec, "-keyout", name + ".key", "-out", name + ".csr", "-subj", subject)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", name + ".ext", "-out", name + ".crt")


class Control(BaseHTTPRequestHandler):
    """Faults, the log of requests; and the two calls of etcd with which contract.sh compacts."""
    cluster = None

    def log_message(self, *_):
        pass

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        cluster, answer = self.cluster, {}
        with cluster.store.lock:
            if self.path == "/v3/kv/range":
                answer = {"header": {"revision": str(cluster.store.version)}}
            elif self.path == "/v3/kv/compaction":
                cluster.store.version += 1
                cluster.store.compacted = cluster.store.version
                cluster.store.history.clear()
                cluster.store.lock.notify_all()
            elif self.path == "/fault":
                cluster.faults.append(order)
            elif self.path == "/log":
                answer = list(cluster.requests)
                cluster.requests.clear()
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    directory = os.path.realpath(sys.argv[1])
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
    if not os.path.exists(os.path.join(directory, "admin.crt")):
        certificates(directory)
    cluster = Cluster(directory)
    Handler.cluster = cluster
    with cluster.store.lock:
        for name in ("default", "kube-system"):
            cluster.create(cluster.store.resources[("v1", "namespaces")], None, {
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, {})
    server = Server(("127.0.0.1", port), Handler)
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(os.path.join(directory, "server.crt"), os.path.join(directory, "server.key"))
    server.context.load_verify_locations(os.path.join(directory, "ca.crt"))
    server.context.verify_mode = ssl.CERT_OPTIONAL
    Control.cluster = cluster
    orders = ThreadingHTTPServer(("127.0.0.1", 0), Control)
    threading.Thread(target=orders.serve_forever, daemon=True).start()
    with open(os.path.join(directory, "port.new"), "w") as out:
        out.write("%d %d\n" % (server.server_port, orders.server_port))
    os.rename(os.path.join(directory, "port.new"), os.path.join(directory, "port"))
    server.serve_forever()


if __name__ == "__main__":
    main()
