/* The MCP servers of users: their configuration (STATE/servers.db, and the configuration file), and their processes,
 * one per box and name. Called by served.c, front/native/servers and the daemon. */
#ifndef CUBBY_TOOL_SERVERS_H
#define CUBBY_TOOL_SERVERS_H

#include "tool/servers/server.h"

struct servers;

/* directory: the state directory; NULL: nothing is stored. Files are opened when they are first needed. */
struct servers *servers_new(const char *directory);
/* Stops all servers. No more requests may come, but events of boxes may. NULL is allowed, here and below. */
void servers_stop(struct servers *servers);
void servers_free(struct servers *servers);

/* ---- configuration ---- */

struct servers_row {
    const char *user; /* NULL: applies to users without rows of their own */
    const char *name; /* NULL: the user has no servers */
    const char *text; /* server_spec.text */
};
/* Replaces the rows of the configuration. */
void servers_configure(struct servers *servers, const struct servers_row *rows, size_t count);
/* The servers of a user, sorted by name; those of the configuration hide stored ones. */
int servers_specs(struct servers *servers, const char *user, struct arena *arena, struct server_spec **ret_specs,
                  size_t *ret_count, struct err *err);
/* NOT_FOUND: the user has no server of that name. */
int servers_spec(struct servers *servers, const char *user, const char *name, struct arena *arena,
                 struct server_spec *ret_spec, struct err *err);
/* EXISTS: the name is in the configuration. LIMIT: the user has too many. A running server is replaced at its next
 * use. */
int servers_put(struct servers *servers, const char *user, const struct server_spec *spec, bool *ret_created,
                struct err *err);
/* Stops its processes too. NOT_FOUND: no such server. DENIED: it is in the configuration. */
int servers_remove(struct servers *servers, const char *user, const char *name, struct err *err);

/* ---- running servers ---- */

/* Gets the server of this box, started if it does not run; release it with server_unref. BUSY: it died and is not
 * restarted yet. IO, LIMIT: it cannot be started. */
int servers_get(struct servers *servers, struct box *box, const struct server_spec *spec, const char *const *drops,
                const struct server_wait *wait, struct server **ret_server, struct err *err);
/* The box has stopped or was deleted, and so have its servers. Called from within the provider. */
void servers_box_ended(struct servers *servers, const char *box);
/* Writes [{"box","state","tools","left_out","restarts","why","retry_in_ms"}...] for a configured server. */
void servers_running_json(struct servers *servers, const char *user, const struct server_spec *spec, struct json *json);

#endif
