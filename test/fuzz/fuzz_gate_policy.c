/* Any JSON as a network policy: what is accepted is written back and read as the same, and every decision ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "gate/gate_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct gate_policy *policy, const char *name) {
    static const char *const addresses[] = {"8.8.8.8", "10.7.1.1", "169.254.169.254"};
    struct gate_machine machine = {.open = NULL};
    for (size_t i = 0; i < 3; i++) {
        struct address address;
        struct gate_verdict verdict;
        assert(address_text(addresses[i], &address));
        struct gate_subject subject = {.name = name, .address = &address, .port = 443, .method = "GET", .path = "/a/b"};
        gate_decide(&machine, &policy, 1, NULL, &subject, &verdict);
        assert(i == 0 || !verdict.allowed); /* private without open_networks, and never */
        assert(!(verdict.allowed && verdict.ask) && verdict.why[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gate_policy *policy, *again;
    struct err err = {0};
    struct gate_range ranges[32];
    json_t *value = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (!value)
        return 0;
    autobuf warnings = buf_max(1 << 20);
    int result = gate_policy_parse(value, &policy, &warnings, &err);
    json_decref(value);
    assert(result == 0 || (result == -ERR_INVALID && err.text[0]));
    if (result < 0)
        return 0;
    json_t *written = gate_policy_json(policy, true);
    assert(gate_policy_parse(written, &again, NULL, &err) == 0);
    json_t *twice = gate_policy_json(again, true);
    assert(json_equal(written, twice));
    decide(policy, "a.test");
    decide(policy, NULL);
    const struct gate_policy *level = policy;
    assert(gate_policy_ports(&level, 1, false, ranges, 32) <= 32);
    json_decref(written);
    json_decref(twice);
    gate_policy_free(policy);
    gate_policy_free(again);
    return 0;
}
