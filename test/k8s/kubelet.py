#!/usr/bin/env python3
"""A toy kubelet and scheduler for tests: pods of the API server in DIR become processes of this machine, each container
in its own mount and pid namespace, with its volumes and renewed tokens, its grace period and its states.
usage: kubelet.py DIR BUILD. Images that begin with "local/" are there; containers find programs of BUILD first.
Orders: a file DIR/order.WHAT.POD: oom, evict, node-lost, crash."""
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time

NODE, TICK_S = "node-1", 0.03
CAPACITY = {"cpu": 64.0, "memory": 256 << 30}
UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def quantity(text):
    text = str(text)
    for unit in sorted(UNITS, key=len, reverse=True):
        if text.endswith(unit):
            return float(text[:-len(unit)]) * UNITS[unit]
    return float(text)


class Api:
    def __init__(self, directory):
        self.context = ssl.create_default_context(cafile=directory + "/ca.crt")
        self.context.load_cert_chain(directory + "/admin.crt", directory + "/admin.key")
        self.file = directory + "/port"

    def open(self, timeout):
        with open(self.file) as port:
            return http.client.HTTPSConnection("127.0.0.1", int(port.read().split()[0]), context=self.context,
                                               timeout=timeout)

    def call(self, method, path, body=None, kind="application/json"):
        """(status, object); retried while the server is away, as a kubelet does."""
        while True:
            try:
                conn = self.open(10)
                conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": kind})
                answer = conn.getresponse()
                data = answer.read()
                conn.close()
                if answer.status < 500 and answer.status != 429:
                    return answer.status, json.loads(data)
            except (OSError, ValueError, http.client.HTTPException):
                pass
            time.sleep(0.2)

    def watch(self, path, each):
        conn = self.open(None)
        conn.request("GET", path)
        for line in conn.getresponse():
            if line.strip():
                each(json.loads(line))


class Container:
    """One process with its own view of this machine: its volumes at their paths, everything else as it is."""

    def __init__(self, pod, spec):
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.state, self.last, self.restarts = {"waiting": {"reason": "ContainerCreating"}}, {}, 0
        self.process, self.why = None, None

    def start(self):
        root = "%s/root-%s" % (self.pod.dir, self.name)
        os.makedirs(root, exist_ok=True)
        script = ["set -e", "mount --make-rprivate /", "mount -t tmpfs tmpfs " + root]
        mounts = {os.path.realpath(m["mountPath"]): m for m in self.spec.get("volumeMounts") or []}

        def show(path):
            inner = [m for m in mounts if m.startswith(path.rstrip("/") + "/")]
            if path in mounts:
                source = self.pod.volumes[mounts[path]["name"]]
                script.append("mkdir -p %s%s && mount --bind %s %s%s" % (root, path, source, root, path))
                if mounts[path].get("readOnly"):
                    script.append("mount -o remount,bind,ro %s%s" % (root, path))
            elif os.path.islink(path):
                script.append("cp -P %s %s%s" % (path, root, path))
            elif inner:
                script.append("mkdir -p %s%s" % (root, path))
                there = {os.path.join(path, n) for n in os.listdir(path)} if os.path.isdir(path) and path != "/run" else set()
                for child in sorted(there | {path.rstrip("/") + "/" + m[len(path.rstrip("/")) + 1:].split("/")[0]
                                             for m in inner}):
                    show(child)
            elif path == "/run":
                script.append("mkdir -p %s/run" % root)  # an image has its own
            elif path == "/proc":
                script.append("mkdir %s/proc && mount -t proc proc %s/proc" % (root, root))
            elif os.path.isdir(path):
                script.append("mkdir %s%s && mount --rbind %s %s%s" % (root, path, path, root, path))
            elif os.path.isfile(path):
                script.append(": > %s%s && mount --bind %s %s%s" % (root, path, path, root, path))
        for name in sorted(os.listdir("/")):
            show("/" + name)
        for path in sorted(mounts):
            if not os.path.exists("/" + path.split("/")[1]):
                show(path)
        security = {**self.pod.spec.get("securityContext", {}), **self.spec.get("securityContext", {})}
        user = security.get("runAsUser")
        become = "setpriv --reuid %d --regid %d --clear-groups %s" % (
            user, security.get("runAsGroup", user), "--no-new-privs") if user else ""
        script += ["cd " + root, "mkdir .old", "pivot_root . .old", "cd " + self.spec.get("workingDir", "/"),
                   "umount -l /.old", 'exec %s "$@"' % become]
        words = (self.spec.get("command") or []) + (self.spec.get("args") or [])
        env = {"PATH": self.pod.kubelet.build + ":" + os.environ["PATH"], "HOSTNAME": self.pod.name, "HOME": "/root"}
        for item in self.spec.get("env") or []:
            ref = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            env[item["name"]] = self.pod.field(ref) if ref else item.get("value", "")
        with open("%s/%s.log" % (self.pod.dir, self.name), "ab") as log:
            self.process = subprocess.Popen(["unshare", "-m", "-p", "-f", "--kill-child=KILL", "sh", "-c",
                                             "\n".join(script), "sh", *words], env=env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        self.state = {"running": {"startedAt": stamp()}}

    def signal(self, number):
        """To its PID 1, which ignores what it has no handler for, as in any container."""
        try:
            with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as children:
                for child in children.read().split():
                    os.kill(int(child), number)
        except OSError:
            pass

    def ended(self):
        """True once, when the process is over."""
        if not self.process or self.process.poll() is None:
            return False
        code, self.process = self.process.returncode, None
        reason = self.why or ("Completed" if code == 0 else "Error")
        self.state = {"terminated": {"exitCode": 128 - code if code < 0 else code, "reason": reason,
                                     "finishedAt": stamp(), **({"signal": -code} if code < 0 else {})}}
        self.why = None
        return True

    def status(self):
        return {"name": self.name, "image": self.spec["image"], "ready": "running" in self.state, "state": self.state,
                "lastState": self.last, "restartCount": self.restarts}


def stamp():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Pod(threading.Thread):
    def __init__(self, kubelet, obj):
        super().__init__(daemon=True)
        self.kubelet, self.obj, self.spec = kubelet, obj, obj["spec"]
        meta = obj["metadata"]
        self.name, self.namespace, self.uid = meta["name"], meta["namespace"], meta["uid"]
        self.path = "/api/v1/namespaces/%s/pods/%s" % (self.namespace, self.name)
        self.dir = "%s/pods/%s" % (kubelet.dir, self.uid)
        self.volumes, self.tokens, self.shown = {}, [], None
        self.init = [Container(self, c) for c in self.spec.get("initContainers") or []]
        self.containers = [Container(self, c) for c in self.spec["containers"]]

    def field(self, path):
        at = self.obj
        for word in path.split("."):
            at = at.get(word, "")
        return {"status.podIP": "127.0.0.1"}.get(path, at)

    # ---- volumes ----

    def prepare(self):
        os.makedirs(self.dir, exist_ok=True)
        group = self.spec.get("securityContext", {}).get("fsGroup")
        for volume in self.spec.get("volumes") or []:
            name = volume["name"]
            place = "%s/volume-%s" % (self.dir, name)
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                place = "%s/claims/%s.%s" % (self.kubelet.dir, self.namespace, claim)
                self.kubelet.api.call("PATCH", "/api/v1/namespaces/%s/persistentvolumeclaims/%s/status" % (
                    self.namespace, claim), {"status": {"phase": "Bound"}}, "application/merge-patch+json")
            os.makedirs(place, exist_ok=True)
            self.volumes[name] = place
            for source in volume.get("projected", {}).get("sources", []):
                if "serviceAccountToken" in source:
                    self.tokens.append([place, source["serviceAccountToken"], 0])
            if group:
                os.chown(place, -1, group)
                os.chmod(place, 0o2770)
        self.renew()

    def renew(self):
        for token in self.tokens:
            place, source, due = token
            if time.time() < due:
                continue
            seconds = source.get("expirationSeconds", 3600)
            status, answer = self.kubelet.api.call(
                "POST", "/api/v1/namespaces/%s/serviceaccounts/%s/token" % (
                    self.namespace, self.spec["serviceAccountName"]),
                {"spec": {"audiences": [source["audience"]], "expirationSeconds": seconds, "boundObjectRef": {
                    "kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}}})
            if status != 201:
                continue
            fresh = os.path.join(place, ".new")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o440), "w") as out:
                out.write(answer["status"]["token"])
            os.chmod(fresh, 0o444)
            os.rename(fresh, os.path.join(place, source["path"]))
            token[2] = time.time() + seconds * 0.8

    # ---- states ----

    def report(self, phase, reason=None, message=None, more=()):
        ready = phase == "Running" and all("running" in c.state for c in self.containers)
        status = {"phase": phase, "podIP": "127.0.0.1", "hostIP": "127.0.0.1",
                  "conditions": [{"type": "PodScheduled", "status": "True"},
                                 {"type": "Initialized", "status": "True" if phase != "Pending" else "False"},
                                 {"type": "ContainersReady", "status": str(ready)},
                                 {"type": "Ready", "status": str(ready)}, *more],
                  "initContainerStatuses": [c.status() for c in self.init],
                  "containerStatuses": [c.status() for c in self.containers]}
        if reason:
            status.update(reason=reason, message=message)
        if status != self.shown and self.uid in self.kubelet.pods:
            self.shown = json.loads(json.dumps(status))
            self.kubelet.api.call("PATCH", self.path + "/status", {"metadata": {"uid": self.uid}, "status": status},
                                  "application/merge-patch+json")

    def stop(self, grace):
        running = [c for c in self.containers + self.init if c.process]
        for container in running:
            container.signal(signal.SIGTERM)
        end = time.monotonic() + grace
        while time.monotonic() < end and any(c.process and c.process.poll() is None for c in running):
            time.sleep(TICK_S)
        for container in running:
            if container.process:
                container.signal(signal.SIGKILL)
                container.process.wait()
                container.ended()

    def order(self, what):
        try:
            os.unlink("%s/order.%s.%s" % (self.kubelet.dir, what, self.name))
            return True
        except OSError:
            return False

    def run(self):
        self.prepare()
        if self.run_init():
            self.run_containers()
        self.stop(0)
        shutil.rmtree(self.dir + "/x", ignore_errors=True)

    def missing_image(self):
        for container in self.init + self.containers:
            if not container.spec["image"].startswith("local/"):
                container.state = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "%s"'
                                               % container.spec["image"]}}
                return True
        return False

    def gone(self):
        return self.kubelet.pods.get(self.uid) is None

    def leaving(self):
        """The grace period of a pod that is to go, or None."""
        meta = (self.kubelet.pods.get(self.uid) or {"metadata": {"deletionTimestamp": 1}})["metadata"]
        return meta.get("deletionGracePeriodSeconds", 0) if meta.get("deletionTimestamp") else None

    def finish(self):
        self.stop(self.leaving() or 0)
        self.kubelet.api.call("DELETE", self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    def run_init(self):
        self.report("Pending")
        while self.missing_image():
            self.report("Pending")
            if self.leaving() is not None:
                self.finish()
                return False
            time.sleep(TICK_S)
        for container in self.init:
            container.start()
            while not container.ended():
                if self.leaving() is not None:
                    self.finish()
                    return False
                time.sleep(TICK_S)
            if container.state["terminated"]["exitCode"]:
                self.report("Failed")
                return False
        return True

    def run_containers(self):
        always = self.spec.get("restartPolicy", "Always") == "Always"
        for container in self.containers:
            container.start()
        while True:
            if self.leaving() is not None:
                return self.finish()
            for container in self.containers:
                if container.name == self.containers[0].name and container.process and self.order("oom"):
                    container.why = "OOMKilled"
                    container.signal(signal.SIGKILL)
                if container.process and self.order("crash"):
                    container.signal(signal.SIGKILL)
                if container.ended() and always:
                    container.last, container.restarts = container.state, container.restarts + 1
                    container.start()
            if self.order("evict"):
                self.stop(0)
                return self.report("Failed", "Evicted", "The node was low on resource: memory.")
            if self.order("node-lost"):
                self.stop(0)
                self.report("Running", more=[{"type": "DisruptionTarget", "status": "True",
                                              "reason": "DeletionByTaintManager",
                                              "message": "Taint manager: deleting due to NoExecute taint"}])
                return self.kubelet.api.call("DELETE", self.path, {"gracePeriodSeconds": 0})
            if all("terminated" in c.state for c in self.containers):
                bad = any(c.state["terminated"]["exitCode"] for c in self.containers)
                return self.report("Failed" if bad else "Succeeded")
            self.report("Running")
            self.renew()
            time.sleep(TICK_S)


class Kubelet:
    def __init__(self, directory, build):
        self.dir, self.build, self.api = directory, build, Api(directory)
        self.pods, self.threads = {}, {}

    def event(self, event):
        obj = event["object"]
        if event["type"] == "ERROR":
            raise OSError("expired")
        if event["type"] == "DELETED":
            self.pods.pop(obj["metadata"]["uid"], None)
            return
        if event["type"] == "BOOKMARK":
            return
        uid = obj["metadata"]["uid"]
        self.pods[uid] = obj
        if not obj["spec"].get("nodeName"):
            self.schedule(obj)
        elif obj["spec"]["nodeName"] == NODE and uid not in self.threads and \
                obj["status"].get("phase") not in ("Failed", "Succeeded"):
            self.threads[uid] = Pod(self, obj)
            self.threads[uid].start()

    def schedule(self, pod):
        meta, path = pod["metadata"], "/api/v1/namespaces/%s/pods/%s" % (pod["metadata"]["namespace"],
                                                                          pod["metadata"]["name"])
        why = [] if not pod["spec"].get("nodeSelector") else ["1 node(s) didn't match Pod's node affinity/selector"]
        for what, most in CAPACITY.items():
            wanted = sum(quantity(c.get("resources", {}).get("requests", {}).get(what, 0))
                         for c in pod["spec"]["containers"])
            if wanted > most:
                why.append("1 Insufficient " + what)
        if not why:
            self.api.call("POST", path + "/binding", {"target": {"kind": "Node", "name": NODE}})
        elif not pod["status"].get("conditions"):
            message = "0/1 nodes are available: %s." % ", ".join(why)
            self.api.call("PATCH", path + "/status", {"metadata": {"uid": meta["uid"]}, "status": {
                "phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                                                    "reason": "Unschedulable", "message": message}]}},
                          "application/merge-patch+json")

    def run(self):
        while True:
            try:
                status, listed = self.api.call("GET", "/api/v1/pods")
                for obj in listed["items"]:
                    self.event({"type": "ADDED", "object": obj})
                alive = {o["metadata"]["uid"] for o in listed["items"]}
                for uid in [u for u in self.pods if u not in alive]:
                    del self.pods[uid]
                self.api.watch("/api/v1/pods?watch=1&resourceVersion=%s" % listed["metadata"]["resourceVersion"],
                               self.event)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.1)

    def end(self, *_):
        for thread in list(self.threads.values()):
            for container in thread.containers + thread.init:
                if container.process:
                    container.signal(signal.SIGKILL)
        os._exit(0)


if __name__ == "__main__":
    kubelet = Kubelet(os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]))
    signal.signal(signal.SIGTERM, kubelet.end)
    kubelet.run()
