/* What is kept of a sandbox in addition to its box: template, metadata, times. JSON in the box's note (box/provider/note.h). */
#ifndef CUBBY_FRONT_E2B_RECORD_H
#define CUBBY_FRONT_E2B_RECORD_H

#include "front/e2b/e2b.h"

enum e2b_internet { E2B_INTERNET_UNSAID, E2B_INTERNET_ON, E2B_INTERNET_OFF };

struct e2b_record {
    const char *template_id, *alias; /* alias NULL: none */
    const char *build_id;            /* of a template made of layers; NULL: none */
    const char *metadata;            /* a JSON object, exactly as it was sent; NULL: none was */
    const char *env;                 /* a JSON object: the caller's variables */
    const char *network;             /* a JSON object, without secrets; NULL: none was sent */
    const char *volumes;             /* a JSON array of mounts; NULL: none */
    const char *setup;               /* of its template (setup.h); NULL: none */
    uint64_t started_us, end_ms;     /* wall clock */
    uint64_t timeout_ms;             /* as asked for at create */
    bool fresh;                      /* the files in it that name it were not written yet */
    bool auto_pause, keep_memory, auto_resume, private_traffic;
    uint64_t internet; /* enum e2b_internet */
};

/* Whether the box is a sandbox, made by this dialect. */
bool e2b_record_has(struct http_request *request, const struct box *box);
/* In the request's arena. NOT_FOUND (WHY_NO_BOX): the box is not a sandbox. held: it is paused without memory. */
int e2b_record_read(struct http_request *request, const char *id, struct e2b_record *ret_record, bool *ret_held,
                    struct err *err);
int e2b_record_of(struct provider *provider, const char *id, struct arena *arena, struct e2b_record *ret_record,
                  bool *ret_held, struct err *err);
/* The note that holds it. end: the deadline counts (the sandbox runs). */
int e2b_record_note(const struct e2b_record *record, bool end, struct arena *arena, struct note *ret_note,
                    struct err *err);
int e2b_record_write(struct http_request *request, const char *id, const struct e2b_record *record, bool end,
                     struct err *err);

#endif
