/* The record of a sandbox as JSON. Called by all files of this dialect. Invariant: metadata come back exactly as they
 * were sent. */
#include "front/e2b/record.h"

#include <jansson.h>

bool e2b_record_has(struct http_request *request, const struct box *box) {
    return provider_noted(front_of(request)->provider, box->id);
}

static const struct row record_rows[] = {
    OUT("template", TEXT, e2b_record, template_id, ""),
    OUT_MAYBE("alias", TEXT, e2b_record, alias, ""),
    OUT_MAYBE("build", TEXT, e2b_record, build_id, ""),
    OUT_MAYBE("setup", TEXT, e2b_record, setup, ""),
    OUT_INT("started_us", e2b_record, started_us, ""),
    OUT_INT("end_ms", e2b_record, end_ms, ""),
    OUT_INT("timeout_ms", e2b_record, timeout_ms, ""),
    OUT("fresh", BOOL, e2b_record, fresh, ""),
    OUT("auto_pause", BOOL, e2b_record, auto_pause, ""),
    OUT("keep_memory", BOOL, e2b_record, keep_memory, ""),
    OUT("auto_resume", BOOL, e2b_record, auto_resume, ""),
    OUT("private_traffic", BOOL, e2b_record, private_traffic, ""),
    OUT_INT("internet", e2b_record, internet, ""),
    {0},
};

/* Members that are JSON themselves. */
static const struct record_raw {
    const char *key;
    size_t offset;
} record_raws[] = {
    {"metadata", offsetof(struct e2b_record, metadata)},
    {"env", offsetof(struct e2b_record, env)},
    {"network", offsetof(struct e2b_record, network)},
    {"volumes", offsetof(struct e2b_record, volumes)},
};
enum { RECORD_RAWS = sizeof record_raws / sizeof *record_raws };

int e2b_record_note(const struct e2b_record *record, bool end, struct arena *arena, struct note *ret_note,
                    struct err *err) {
    autobuf out = buf_max(NOTE_TEXT_BYTES);
    struct json json = json_begin(&out);
    json_put_str(&json, "dialect", "e2b");
    rows_members(&json, record_rows, record);
    for (const struct record_raw *raw = record_raws; raw < record_raws + RECORD_RAWS; raw++) {
        const char *text = *(const char *const *)((const char *)record + raw->offset);
        if (text)
            json_put_raw(&json, raw->key, text, strlen(text));
    }
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

int e2b_record_read(struct http_request *request, const char *id, struct e2b_record *ret_record, bool *ret_held,
                    struct err *err) {
    return e2b_record_of(front_of(request)->provider, id, http_arena(request), ret_record, ret_held, err);
}

int e2b_record_of(struct provider *provider, const char *id, struct arena *arena, struct e2b_record *ret_record,
                  bool *ret_held, struct err *err) {
    struct note note;
    STEP(provider_note(provider, id, arena, &note, err));
    json_t *root = json_loads(note.text, 0, NULL);
    *ret_record = (struct e2b_record){0};
    int failed = rows_read(root, record_rows, arena, ret_record, err);
    for (const struct record_raw *raw = record_raws; raw < record_raws + RECORD_RAWS; raw++) {
        const json_t *value = json_object_get(root, raw->key);
        char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        *(const char **)((char *)ret_record + raw->offset) = arena_strdup_or(arena, text);
        free(text);
    }
    json_decref(root);
    *ret_held = note.held;
    if (!failed && ret_record->template_id)
        return 0;
    return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "box %s is not a sandbox", id);
}
