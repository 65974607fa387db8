/* The record of a sandbox as JSON. Called by all files of this dialect. Invariant: metadata come back exactly as they
 * were sent. */
#include "front/e2b/record.h"

#include <jansson.h>
#include <string.h>

bool e2b_record_has(struct http_request *request, const struct box *box) {
    return provider_noted(front_of(request)->provider, box->id);
}

/* ---- writing ---- */

static void record_put_raw(struct json *json, const char *key, const char *text) {
    if (text)
        json_put_raw(json, key, text, strlen(text));
}

static void record_put_str(struct json *json, const char *key, const char *text) {
    if (text)
        json_put_str(json, key, text);
}

int e2b_record_note(const struct e2b_record *record, bool end, struct arena *arena, struct note *ret_note,
                    struct err *err) {
    autobuf out = buf_max(NOTE_TEXT_BYTES);
    struct json json;
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_str(&json, "dialect", "e2b");
    json_put_str(&json, "template", record->template_id);
    record_put_str(&json, "alias", record->alias);
    record_put_str(&json, "build", record->build_id);
    record_put_raw(&json, "metadata", record->metadata);
    record_put_raw(&json, "env", record->env);
    record_put_raw(&json, "network", record->network);
    record_put_raw(&json, "volumes", record->volumes);
    record_put_str(&json, "setup", record->setup);
    json_put_uint(&json, "started_us", record->started_us);
    json_put_uint(&json, "end_ms", record->end_ms);
    json_put_uint(&json, "timeout_ms", record->timeout_ms);
    json_put_bool(&json, "fresh", record->fresh);
    json_put_bool(&json, "auto_pause", record->auto_pause);
    json_put_bool(&json, "keep_memory", record->keep_memory);
    json_put_bool(&json, "auto_resume", record->auto_resume);
    json_put_bool(&json, "private_traffic", record->private_traffic);
    json_put_int(&json, "internet", record->internet);
    json_close(&json, '}');
    if (out.failed)
        return err_set(err, ERR_INVALID, "metadata, envVars and network of a sandbox have at most %u bytes together",
                       NOTE_TEXT_BYTES);
    *ret_note = (struct note){
        .text = arena_copy(arena, out.data, out.len),
        .deadline_ms = end ? record->end_ms : 0,
        .action = !record->auto_pause   ? NOTE_KILL
                  : record->keep_memory ? NOTE_PAUSE
                                        : NOTE_STOP,
    };
    return 0;
}

int e2b_record_write(struct http_request *request, const char *id, const struct e2b_record *record, bool end,
                     struct err *err) {
    struct note note;
    return e2b_record_note(record, end, http_arena(request), &note, err)
               ?: provider_note_set(front_of(request)->provider, id, &note, err);
}

/* ---- reading ---- */

static const char *record_text(struct arena *arena, const json_t *root, const char *key) {
    return arena_strdup_or(arena, json_string_value(json_object_get(root, key)));
}

static const char *record_raw(struct arena *arena, const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const char *copy = arena_strdup_or(arena, text);
    free(text);
    return copy;
}

static uint64_t record_number(const json_t *root, const char *key) {
    json_int_t value = json_integer_value(json_object_get(root, key));
    return value > 0 ? (uint64_t)value : 0;
}

static bool record_bool(const json_t *root, const char *key) {
    return json_is_true(json_object_get(root, key));
}

int e2b_record_read(struct http_request *request, const char *id, struct e2b_record *ret_record, bool *ret_held,
                    struct err *err) {
    return e2b_record_of(front_of(request)->provider, id, http_arena(request), ret_record, ret_held, err);
}

int e2b_record_of(struct provider *provider, const char *id, struct arena *arena, struct e2b_record *ret_record,
                  bool *ret_held, struct err *err) {
    struct note note;
    int failed = provider_note(provider, id, arena, &note, err);
    if (failed)
        return failed;
    json_t *root = json_loads(note.text, 0, NULL);
    *ret_record = (struct e2b_record){
        .template_id = record_text(arena, root, "template"),
        .alias = record_text(arena, root, "alias"),
        .build_id = record_text(arena, root, "build"),
        .metadata = record_raw(arena, root, "metadata"),
        .env = record_raw(arena, root, "env"),
        .network = record_raw(arena, root, "network"),
        .volumes = record_raw(arena, root, "volumes"),
        .setup = record_text(arena, root, "setup"),
        .started_us = record_number(root, "started_us"),
        .end_ms = record_number(root, "end_ms"),
        .timeout_ms = record_number(root, "timeout_ms"),
        .fresh = record_bool(root, "fresh"),
        .auto_pause = record_bool(root, "auto_pause"),
        .keep_memory = record_bool(root, "keep_memory"),
        .auto_resume = record_bool(root, "auto_resume"),
        .private_traffic = record_bool(root, "private_traffic"),
        .internet = (int)record_number(root, "internet"),
    };
    json_decref(root);
    *ret_held = note.held;
    if (ret_record->template_id)
        return 0;
    return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "box %s is not a sandbox", id);
}
