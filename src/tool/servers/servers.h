/* The MCP servers of users: what is configured (STATE/servers.db, and the configuration), and what runs of it, one process a
 * box and name. Called by served.c, front/native_servers and the daemon. */
#ifndef CUBBY_TOOL_SERVERS_H
#define CUBBY_TOOL_SERVERS_H

#include "tool/servers/server.h"

struct servers;

/* directory: of STATE; NULL: nothing is stored. Nothing is opened before it is needed. */
struct servers *servers_new(const char *directory);
/* Ends all; nobody asks any more, but it may still be told of boxes. NULL is fine, here and below. */
void servers_stop(struct servers *servers);
void servers_free(struct servers *servers);

/* ---- what is configured ---- */

struct servers_row {
    const char *user; /* NULL: everybody who has no rows of his own */
    const char *name; /* NULL: a user with none */
    const char *text; /* server_spec.text */
};
/* What the configuration says; instead of what it said before. */
void servers_configure(struct servers *servers, const struct servers_row *rows, size_t count);
/* Those of a user, by name; the configuration's hide stored ones. */
int servers_specs(struct servers *servers, const char *user, struct arena *arena, struct server_spec **ret_specs,
                  size_t *ret_count, struct err *err);
/* NOT_FOUND: he has none of that name. */
int servers_spec(struct servers *servers, const char *user, const char *name, struct arena *arena,
                 struct server_spec *ret_spec, struct err *err);
/* EXISTS: it stands in the configuration. LIMIT: he has enough. A running one is replaced when it is asked next. */
int servers_put(struct servers *servers, const char *user, const struct server_spec *spec, bool *ret_created,
                struct err *err);
/* NOT_FOUND; DENIED: it stands in the configuration. What runs of it is ended. */
int servers_remove(struct servers *servers, const char *user, const char *name, struct err *err);

/* ---- what runs ---- */

/* The one of this box, started if it does not run: for server_unref. BUSY: it died and is not tried again yet; IO, LIMIT: it
 * cannot be started. */
int servers_get(struct servers *servers, struct box *box, const struct server_spec *spec, const char *const *drops,
                const struct server_wait *wait, struct server **ret_server, struct err *err);
/* Its box has ended, or is no more: so has what ran in it. From within the provider. */
void servers_box_ended(struct servers *servers, const char *box);
/* [{"box","state","tools","left_out","restarts","why","retry_in_ms"}...] of one that is configured */
void servers_running_json(struct servers *servers, const char *user, const struct server_spec *spec, struct json *json);

#endif
