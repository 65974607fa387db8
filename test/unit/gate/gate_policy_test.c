/* Policies: the grammar of entries and its refusals, addresses and their classes, and the decision against a model of it
 * in Python (test/lib/gate_model.py) with random policies and subjects. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "gate/gate_policy.h"
#include "tap.h"

static int parse(const char *text, struct gate_policy **ret_policy, struct buf *warnings, struct err *err) {
    json_t *value = json_loads(text, 0, NULL);
    must(value, text);
    int result = gate_policy_parse(value, ret_policy, warnings, err);
    json_decref(value);
    return result;
}

/* ---- the grammar ---- */

struct refusal {
    const char *entry, *why;
};

static void refuse(const struct refusal *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct gate_policy *policy = NULL;
        struct err err = {0};
        char *text = xasprintf("{\"allow\": [%s]}", rows[i].entry);
        int result = parse(text, &policy, NULL, &err);
        ok_about(result == -ERR_INVALID && strstr(err.text, rows[i].why), rows[i].entry, err.text);
        gate_policy_free(policy);
        free(text);
    }
}

static void test_header_refusals(void) {
    static const struct refusal rows[] = {
        {"{\"host\": \"a.test\", \"headers\": {}}", "'headers' is an object with 1 to 20"},
        {"{\"host\": \"a.test\", \"headers\": [\"a\"]}", "'headers' is an object with 1 to 20"},
        {"{\"host\": \"a.test\", \"headers\": {\"a b\": \"c\"}}", "a name that no header can have"},
        {"{\"host\": \"a.test\", \"headers\": {\"\": \"c\"}}", "a name that no header can have"},
        {"{\"host\": \"a.test\", \"headers\": {\"Host\": \"b.test\"}}", "belongs to the connection"},
        {"{\"host\": \"a.test\", \"headers\": {\"Content-Length\": \"1\"}}", "belongs to the connection"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \"1\", \"x-a\": \"2\"}}", "is named twice"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": 1}}", "needs a text"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \"1\\r\\nX-B: 2\"}}", "without control characters"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \" 1\"}}", "without blanks"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \"${HOME}\"}}", "only begins a reference: ${secrets.NAME}"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \"${secrets.}\"}}", "only begins a reference"},
        {"{\"host\": \"a.test\", \"headers\": {\"X-A\": \"${secrets.a\"}}", "only begins a reference"},
        {"{\"host\": \"10.0.0.0/8:443\", \"headers\": {\"X-A\": \"1\"}}", "need a name"},
        {"{\"host\": \"a.test\", \"opaque\": true, \"headers\": {\"X-A\": \"1\"}}", "opaque is not for inspected"},
    };
    refuse(rows, sizeof rows / sizeof *rows);
}

static void test_refusals(void) {
    static const struct refusal rows[] = {
        {"\"*.com\"", "a star directly below 'com'"},
        {"\"a.*.test\"", "a star is only allowed as the whole first label"},
        {"\"*\\u00fc.test\"", "a star is only allowed"},
        {"\"m\\u00fcller.test\"", "write the xn-- form"},
        {"\"localhost\"", "at least two labels"},
        {"\"1.2.3\"", "is not an address"},
        {"\"a.0x7f\"", "an address in disguise"},
        {"\"10.0.0.1\"", "needs ports: 10.0.0.1:443"},
        {"\"10.0.0.1/8:443\"", "has bits set after the first 8; write 10.0.0.0/8"},
        {"\"[2001:db8::1/32]:443\"", "write 2001:db8::/32"},
        {"\"host\"", "needs ports"},
        {"\"a.test:0\"", "is not a port"},
        {"\"a.test:70000\"", "is not a port"},
        {"\"a.test:9-8\"", "is not a port"},
        {"\"a.test:\"", "is not a port"},
        {"\"a.test/sctp\"", "neither /tcp nor /udp"},
        {"\"a.test/udp\"", "UDP needs ports"},
        {"\"a.test:*/udp\"", "more than 16 ports of UDP"},
        {"\"-a.test\"", "labels of letters"},
        {"\"a..test\"", "labels of letters"},
        {"\"a b.test\"", "no blanks"},
        {"5", "a network entry is a text"},
        {"{\"host\": \"a.test\", \"methods\": []}", "'methods' is a list of 1 to 64"},
        {"{\"host\": \"a.test\", \"methods\": [\"get\"]}", "is not a method"},
        {"{\"host\": \"a.test\", \"paths\": [\"a\"]}", "is not a path"},
        {"{\"host\": \"a.test\", \"paht\": 1}", "unknown member 'paht'"},
        {"{\"host\": \"*.a.test\", \"opaque\": true}", "not for stars"},
        {"{\"host\": \"a.test\", \"opaque\": true, \"inspect\": true}", "opaque is not for inspected"},
        {"{\"host\": \"10.0.0.0/8:80\", \"methods\": [\"GET\"]}", "need a name"},
        {"{\"host\": \"a.test:80\", \"ports\": [\"81\"]}", "given once"},
        {"{\"host\": \"a.test\", \"tls\": 1}", "'tls' is true or false"},
    };
    refuse(rows, sizeof rows / sizeof *rows);
    static const char *const objects[] = {"[]",
                                          "{\"allow\": {}}",
                                          "{\"mode\": \"off\"}",
                                          "{\"alow\": []}",
                                          "{\"limits\": {\"mbit\": 0}}",
                                          "{\"limits\": {\"speed\": 1}}",
                                          "{\"log\": 1}"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        struct gate_policy *policy = NULL;
        struct err err = {0};
        ok_about(parse(objects[i], &policy, NULL, &err) == -ERR_INVALID && err.text[0], objects[i], err.text);
        gate_policy_free(policy);
    }
}

static void test_round_trip(void) {
    static const char text[] =
        "{\"mode\":\"ask\",\"allow\":[\"pypi.org\",\"*.github.com\",\"github.com:22\",\"10.0.0.0/8:443\",\"[2001:db8::/32]:443\","
        "\"time.example.com:123/udp\",\"host:6379\",\"*\",{\"host\":\"api.github.com\",\"methods\":[\"GET\",\"HEAD\"],\"paths\":"
        "[\"/repos/acme/**\"]},{\"host\":\"git.corp.example\",\"ports\":[\"443\",\"22-23\"],\"private\":true},{\"host\":\"x.test\",\"headers\":"
        "{\"x-a\":\"Bearer ${secrets.a.b}\"}}],\"deny\":"
        "[\"gist.github.com\",\"10.0.9.0/24\"],\"limits\":{\"mbit\":100,\"bytes\":50000000000},\"log\":\"denied\",\"ask_timeout_ms\":"
        "60000}";
    struct gate_policy *policy, *again;
    struct err err = {0};
    autobuf warnings = buf_max(65536);
    must(parse(text, &policy, &warnings, &err) == 0, err.text);
    json_t *value = gate_policy_json(policy, true);
    char *written = json_dumps(value, JSON_COMPACT);
    is(written, text, "a policy is written as it was read");
    json_t *plain = gate_policy_json(policy, false);
    char *shown = json_dumps(plain, JSON_COMPACT);
    ok(strstr(shown, "{\"x-a\":\"\"}") && !strstr(shown, "Bearer"), "and without the values of headers");
    free(shown);
    json_decref(plain);
    ok(gate_policy_parse(value, &again, NULL, &err) == 0, "and is read again");
    ok(gate_policy_any(policy), "with a star for every name");
    ok(!strstr(buf_cstr(&warnings), "*.github.com"), "a star beside its apex is not warned about");
    struct gate_range ranges[8];
    const struct gate_policy *level = policy;
    is_number(gate_policy_ports(&level, 1, true, ranges, 8), 1, "one port of UDP");
    is_number(ranges[0].first, 123, "which is 123");
    is_number(gate_policy_ports(&level, 1, false, ranges, 8), 1, "a policy that asks has all ports of TCP");
    free(written);
    json_decref(value);
    gate_policy_free(policy);
    gate_policy_free(again);
    must(parse("{\"allow\": [\"a.test\", \"a.test:81\", \"b.test:22,8000-8100\", \"*.github.io\"]}", &policy, &warnings,
               &err) == 0,
         err.text);
    level = policy;
    is_number(gate_policy_ports(&level, 1, false, ranges, 8), 4, "ports that touch become one range");
    ok(ranges[1].first == 80 && ranges[1].last == 81 && ranges[3].last == 8100, "in order");
    ok(strstr(buf_cstr(&warnings), "*.github.io: does not include github.io itself"), "one without is");
    ok(strstr(buf_cstr(&warnings), "strangers can have names below github.io"), "a shared suffix is warned about");
    gate_policy_free(policy);
}

static void test_classes(void) {
    static const struct {
        const char *address;
        enum address_class class;
    } rows[] = {
        {"8.8.8.8", ADDRESS_PUBLIC},
        {"127.0.0.1", ADDRESS_NEVER},
        {"169.254.169.254", ADDRESS_NEVER},
        {"168.63.129.16", ADDRESS_NEVER},
        {"168.63.129.17", ADDRESS_PUBLIC},
        {"100.100.100.200", ADDRESS_NEVER},
        {"100.100.100.201", ADDRESS_PRIVATE},
        {"10.1.1.1", ADDRESS_PRIVATE},
        {"198.18.0.1", ADDRESS_PRIVATE},
        {"192.0.0.192", ADDRESS_NEVER},
        {"192.0.0.1", ADDRESS_PRIVATE},
        {"224.0.0.1", ADDRESS_NEVER},
        {"255.255.255.255", ADDRESS_NEVER},
        {"::1", ADDRESS_NEVER},
        {"::", ADDRESS_NEVER},
        {"::ffff:127.0.0.1", ADDRESS_NEVER},
        {"::ffff:8.8.8.8", ADDRESS_PUBLIC},
        {"::127.0.0.1", ADDRESS_NEVER},
        {"64:ff9b::7f00:1", ADDRESS_NEVER},
        {"64:ff9b::808:808", ADDRESS_PUBLIC},
        {"64:ff9b::a00:1", ADDRESS_PRIVATE},
        {"64:ff9b:1::808:808", ADDRESS_NEVER},
        {"2002:7f00:1::", ADDRESS_NEVER},
        {"2002:808:808::1", ADDRESS_PUBLIC},
        {"2002:a9fe:a9fe::1", ADDRESS_NEVER},
        {"2001::1", ADDRESS_NEVER},
        {"fe80::1", ADDRESS_NEVER},
        {"ff02::1", ADDRESS_NEVER},
        {"fd00:ec2::254", ADDRESS_NEVER},
        {"fd00:ec2::253", ADDRESS_PRIVATE},
        {"2001:db8::1", ADDRESS_PRIVATE},
        {"2606:4700::1111", ADDRESS_PUBLIC},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct address address;
        must(address_text(rows[i].address, &address), rows[i].address);
        ok(address_class(&address) == rows[i].class, "%s", rows[i].address);
    }
}

static void test_paths(void) {
    static const struct {
        const char *pattern, *path;
        bool fits;
    } rows[] = {
        {"/a", "/a", true},
        {"/a", "/a/", false},
        {"/a/*", "/a/b", true},
        {"/a/*", "/a/b/c", false},
        {"/a/**", "/a/b/c", true},
        {"/a/**", "/a", false},
        {"/**", "/", true},
        {"/*x/*y", "/ax/by", true},
        {"/*x/*y", "/ax/b", false},
        {"/**/z", "/a/b/z", true},
        {"/**/z*", "/z/a/zz", true},
        {"/**a**b", "/xaxbxb", true},
        {"/*.json", "/a.json", true},
        {"/*.json", "/a/b.json", false},
        {"/**ab*c", "/abab/abxc", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ok(gate_path_fits(rows[i].pattern, rows[i].path) == rows[i].fits, "%s %s", rows[i].pattern, rows[i].path);
    char path[8192], pattern[200] = "/";
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    for (int i = 0; i < 60; i++)
        strncat(pattern, "**a", sizeof pattern - strlen(pattern) - 1);
    strncat(pattern, "b", sizeof pattern - strlen(pattern) - 1);
    uint64_t before = clock_ms();
    ok(!gate_path_fits(pattern, path) && clock_ms() - before < 2000,
       "a pattern of many stars takes no longer than it may");
}

/* ---- the model ---- */

static bool model_case(json_t *row, char *got, size_t size) {
    struct gate_policy *levels[GATE_LEVELS] = {NULL};
    struct address_network open;
    struct gate_machine machine = {.open = &open, .open_count = 1};
    json_t *list = json_object_get(row, "levels"), *about = json_object_get(row, "subject");
    struct address address;
    struct gate_verdict verdict;
    struct err err = {0};
    const char *text = json_string_value(json_object_get(about, "address"));
    must(address_network_text("10.7.0.0/16", &open, &err) == 0, err.text);
    for (size_t i = 0; i < json_array_size(list); i++)
        must(gate_policy_parse(json_array_get(list, i), &levels[i], NULL, &err) == 0, err.text);
    must(!text || address_text(text, &address), "an address");
    struct gate_subject subject = {.name = json_string_value(json_object_get(about, "name")),
                                   .address = text ? &address : NULL,
                                   .port = (uint16_t)json_integer_value(json_object_get(about, "port")),
                                   .udp = json_is_true(json_object_get(about, "udp")),
                                   .method = json_string_value(json_object_get(about, "method")),
                                   .path = json_string_value(json_object_get(about, "path"))};
    gate_decide(&machine, (const struct gate_policy *const *)levels, GATE_LEVELS, NULL, &subject, &verdict);
    snprintf(got, size, "%s%s",
             verdict.ask        ? "ask"
             : !verdict.allowed ? "deny "
             : verdict.observed ? "observe "
                                : "allow",
             verdict.ask || (verdict.allowed && !verdict.observed) ? "" : verdict.why);
    for (size_t i = 0; i < GATE_LEVELS; i++)
        gate_policy_free(levels[i]);
    return strcmp(got, json_string_value(json_object_get(row, "want"))) == 0;
}

static void test_model(const char *seed) {
    int ends[2];
    char line[65536], got[512];
    unsigned seen = 0, wrong = 0, allowed = 0;
    must(pipe(ends) == 0, "a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execlp("python3", "python3", "test/lib/gate_model.py", seed, "20000", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *cases = fdopen(ends[0], "r");
    while (fgets(line, sizeof line, cases)) {
        json_t *row = json_loads(line, 0, NULL);
        must(row, line);
        seen++;
        if (!model_case(row, got, sizeof got) && wrong++ < 5)
            printf("# got %s: %s", got, line);
        allowed += strcmp(got, "allow") == 0;
        json_decref(row);
    }
    fclose(cases);
    waitpid(pid, NULL, 0);
    ok(seen > 10000 && allowed > 500, "the model has cases (seed %s): %u, of which %u allow", seed, seen, allowed);
    is_number(wrong, 0, "the decision is the model's");
}

int main(int argc, char **argv) {
    char seed[32];
    snprintf(seed, sizeof seed, "%u", (unsigned)clock_wall_ms());
    test_refusals();
    test_header_refusals();
    test_round_trip();
    test_classes();
    test_paths();
    test_model(argc > 1 ? argv[1] : seed);
    return tap_end();
}
