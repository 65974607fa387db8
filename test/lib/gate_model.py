#!/usr/bin/env python3
"""A second reading of the policy language: random policies and subjects, each with the decision that the specification asks for.

gate_model.py SEED COUNT prints COUNT lines: {"levels": [...], "subject": {...}, "want": "allow" | "ask" | "observe WHY" | "deny WHY"}.
Written from the rules, not from the C code: sets and regular expressions instead of entries that are walked.
"""
import ipaddress
import json
import random
import re
import sys

NEVER = [ipaddress.ip_network(n) for n in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32", "192.0.0.192/32", "224.0.0.0/4",
                                           "240.0.0.0/4", "100.100.100.200/32")]
PRIVATE = [ipaddress.ip_network(n) for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24",
                                             "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24")]
OPEN = [ipaddress.ip_network("10.7.0.0/16")]  # open_networks of the test
HOSTS = ["a.test", "b.test", "x.a.test", "y.x.a.test", "c.b.test", "aa.test"]
NAMES = HOSTS + ["*.a.test", "*.x.a.test", "*.b.test"]
NETWORKS = ["10.7.0.0/16", "10.7.1.0/24", "93.184.0.0/24", "10.0.0.0/8", "8.8.8.8/32", "169.254.0.0/16"]
ADDRESSES = ["10.7.1.1", "10.7.2.2", "10.9.9.9", "93.184.0.10", "8.8.8.8", "169.254.169.254", "127.0.0.1", "168.63.129.16", "100.100.100.200"]
PORTS = ["", ":80", ":443", ":22", ":8000-8100", ":*", ":22,443"]
PROTOCOLS = ["", "", "", "/tcp", "/udp"]


def entry(rng, allow):
    host = rng.choice(NAMES * 2 + NETWORKS)
    ports, protocol = rng.choice(PORTS), rng.choice(PROTOCOLS)
    if protocol == "/udp":
        ports = rng.choice([":22", ":443"])
    if allow and host in NETWORKS and not ports:
        ports = ":443"
    text = host + ports + protocol
    if not allow or host in NETWORKS or protocol == "/udp" or rng.random() < 0.6:
        return text
    made = {"host": text}
    if rng.random() < 0.5:
        made["private"] = True
    if rng.random() < 0.5:
        made["methods"] = rng.sample(["GET", "POST", "PUT"], rng.randint(1, 2))
    if rng.random() < 0.3:
        made["paths"] = rng.sample(["/a/**", "/a/*", "/b", "/**"], rng.randint(1, 2))
    return made


def policy(rng):
    made = {}
    if rng.random() < 0.85:
        made["allow"] = [entry(rng, True) for _ in range(rng.randint(0, 14))]
    if rng.random() < 0.5:
        made["deny"] = [entry(rng, False) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        made["mode"] = rng.choice(["observe", "ask"])
    return made


def subject(rng):
    made = {"port": rng.choice([0, 80, 443, 22, 8050, 53])}
    kind = rng.random()
    if kind < 0.75:
        made["name"] = rng.choice(HOSTS)
    if kind > 0.5:
        made["address"] = rng.choice(ADDRESSES)
    if made["port"] and rng.random() < 0.25:
        made["udp"] = True
    if made["port"] and not made.get("udp") and rng.random() < 0.4:
        made["method"], made["path"] = rng.choice(["GET", "POST"]), rng.choice(["/a/b", "/a/b/c", "/b", "/a/../b", "/a//b", "/"])
    return made


def split(one):
    text = one if isinstance(one, str) else one["host"]
    match = re.fullmatch(r"([0-9.]+(?:/\d+)?|[^:/]+)(?::([^/]*))?(?:/(tcp|udp))?", text)
    return text, match[1], match[2], match[3]


def port_fits(ports, port, default):
    if ports is None:
        return port in default if default is not None else True
    for part in ports.split(","):
        low, _, high = part.partition("-")
        if part == "*" or int(low) <= port <= int(high or low):
            return True
    return False


def host_fits(host, it):
    name, address = it.get("name"), it.get("address")
    if re.match(r"\d", host):
        return "network" if address and ipaddress.ip_address(address) in ipaddress.ip_network(host) else None
    pattern = r".+\." + re.escape(host[2:]) if host.startswith("*.") else re.escape(host)
    return "name" if name and re.fullmatch(pattern, name) else None


def fits(one, it, allow):
    """None, "name" or "network"."""
    _, host, ports, protocol = split(one)
    where = host_fits(host, it)
    if it["port"] == 0:
        return where if allow or (ports is None and protocol is None) else None
    wanted = "udp" if it.get("udp") else "tcp"
    if (protocol or ("tcp" if allow else wanted)) != wanted:
        return None
    return where if port_fits(ports, it["port"], (80, 443) if allow else None) else None


def glob(pattern, path):
    expression = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.fullmatch(expression, path, re.S) is not None


def request_fits(one, it):
    if "methods" in one and it["method"] not in one["methods"]:
        return False
    odd = re.search(r"//|%|(^|/)\.\.?(/|$)", it["path"])
    return "paths" not in one or (not odd and any(glob(p, it["path"]) for p in one["paths"]))


def decide(levels, it):
    address = ipaddress.ip_address(it["address"]) if "address" in it else None
    if address and any(address in n for n in NEVER):
        return "deny never"
    for level in levels:
        hit = [split(e)[0] for e in level.get("deny", []) if fits(e, it, False)]
        if hit and level.get("mode") != "observe":
            return "deny deny:" + hit[0]
    ask, soft, private = False, None, True
    for level in levels:
        mode = level.get("mode", "enforce")
        hit = [split(e)[0] for e in level.get("deny", []) if fits(e, it, False)]
        if hit:
            soft = soft or "deny:" + hit[0]
        if "allow" not in level:
            continue
        good = [e for e in level["allow"] if fits(e, it, True)]
        narrowed = [e for e in good if isinstance(e, dict) and ("methods" in e or "paths" in e)]
        if not good:
            if mode == "enforce":
                return "deny default"
            if mode == "observe":
                soft = soft or "default"
            else:
                ask = True
        if narrowed and "method" in it and mode != "observe" and not any(request_fits(e, it) for e in narrowed):
            return "deny request"
        private = private and any(fits(e, it, True) == "network" or (isinstance(e, dict) and e.get("private")) or
                                  (address and re.match(r"\d", split(e)[1]) and fits(e, {**it, "name": None}, True)) for e in good)
    if not any("allow" in level for level in levels):
        return "deny default"
    if address and any(address in n for n in PRIVATE) and not (private and any(address in n for n in OPEN)):
        return "deny private"
    return "ask" if ask else f"observe {soft}" if soft else "allow"


def main():
    rng = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        levels = [policy(rng) for _ in range(rng.randint(1, 3))]
        it = subject(rng)
        if "name" not in it and "address" not in it:
            continue
        print(json.dumps({"levels": levels, "subject": it, "want": decide(levels, it)}))


main()
