/* Sandboxes on the control plane: what create, life, lists and snapshots share. */
#ifndef CUBBY_FRONT_E2B_SANDBOX_H
#define CUBBY_FRONT_E2B_SANDBOX_H

#include <jansson.h>

#include "front/e2b/record.h"

/* A sandbox that the request is about; the box is only looked at (provider_look). */
struct e2b_sandbox {
    struct box *box;
    struct e2b_record record;
    bool held, paused;           /* paused: with memory or without (held) */
    struct http_request *opened; /* by which request; NULL: there is nothing to close */
};
/* That of {id}. INVALID: it cannot be an id; NOT_FOUND: no sandbox of this user. */
int e2b_sandbox_open(struct http_request *request, struct e2b_sandbox *ret_sandbox, struct err *err);
void e2b_sandbox_close(struct e2b_sandbox *sandbox);
#define autosandbox __attribute__((cleanup(e2b_sandbox_close))) struct e2b_sandbox
int e2b_sandbox_put(struct http_request *request, struct box *box, struct e2b_sandbox *ret_sandbox,
                    struct err *err); /* that of a box at hand */

/* A member of an object with sandboxID, envdAccessToken and so on: of create, connect and fork. */
void e2b_sandbox_members(struct http_request *request, const struct e2b_sandbox *sandbox, struct json *json);
int e2b_sandbox_answer(struct http_request *request, int status, const struct e2b_sandbox *sandbox, struct err *err);
/* The members of a row of a list. */
void e2b_sandbox_listed(struct http_request *request, const struct e2b_sandbox *sandbox, struct json *json);
uint64_t e2b_cpus(const struct box *box); /* as many as it may use */
uint64_t e2b_memory_mb(const struct box *box);
uint64_t e2b_disk_mb(struct http_request *request, const struct box *box);
uint64_t e2b_now_us(void);
void e2b_put_time(struct json *json, const char *key, uint64_t wall_us); /* RFC 3339 with microseconds */

/* A paused one runs again (memory false: begun anew with its files), for timeout_ms from now. */
int e2b_sandbox_wake(struct http_request *request, const struct box *box, bool memory, uint64_t timeout_ms,
                     struct e2b_record *ret_record, struct err *err);

/* Before the first use of its inside: the files /run/e2b/.E2B_* that name it. */
int e2b_sandbox_introduce(struct http_request *request, const struct e2b_sandbox *sandbox, struct err *err);

/* The whole body as an object (nothing at all: an empty one), its rows bound to args. Members that no row names are
 * ignored. ret_root: the object, to be given back with json_decref; NULL: not needed. */
int e2b_body(struct http_request *request, void *ret_args, json_t **ret_root, struct err *err);
/* The text of a member of any type, in the request's arena; NULL: it is absent or null. */
const char *e2b_member(struct http_request *request, const json_t *root, const char *key);

int e2b_create(struct http_request *request, struct box *box, struct err *err); /* create.c */
extern const struct row e2b_create_body[];
/* Who commands in containers run as: all are root's, because a container has one user. NULL: not in one. */
const char *e2b_container_user(const char *backend);
/* With this network; NULL: the one that is configured; NULL, too: open where it can be. */
int e2b_acquire(struct provider *provider, struct box_request *wanted, const char *configured, const char *network,
                struct box **ret_box, struct err *err);
int e2b_network(struct http_request *request, struct box *box, struct err *err); /* network.c */
/* What a body's `network` asks for, off: all traffic is denied, as a network of box/network.h; NULL: nothing special. */
int e2b_network_text(struct http_request *request, const json_t *network, bool off, const char **ret_text,
                     struct err *err);
/* The record's allowOut, denyOut and rules are those of traffic from now on. */
int e2b_sandbox_traffic(struct http_request *request, const struct e2b_sandbox *sandbox, const json_t *traffic,
                        struct err *err);
int e2b_list(struct http_request *request, struct box *box, struct err *err); /* list.c */
int e2b_list_old(struct http_request *request, struct box *box, struct err *err);
extern const struct row e2b_list_query[];

/* A cursor of a list: after (number, id). */
struct e2b_page {
    uint64_t limit, after;
    const char *after_id; /* NULL: from the beginning */
    bool ascending;
};
int e2b_page(struct http_request *request, bool ascending, struct e2b_page *ret_page, struct err *err);
void e2b_page_next(struct http_request *request, const struct e2b_page *page, uint64_t number, const char *id);
/* Whether (number, id) comes after the cursor. */
bool e2b_page_after(const struct e2b_page *page, uint64_t number, const char *id);

#endif
