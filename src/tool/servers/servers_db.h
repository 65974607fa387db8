/* STATE/servers.db: the MCP servers that users have put. Made by the first one; the file holds secrets (their environments). */
#ifndef CUBBY_TOOL_SERVERS_DB_H
#define CUBBY_TOOL_SERVERS_DB_H

#include "base/arena.h"
#include "base/err.h"
#include "tool/servers/servers.h"

struct servers_db;

struct servers_db *servers_db_new(const char *directory);
void servers_db_free(struct servers_db *db); /* NULL is fine */
/* By name; count 0 where there is no file. name NULL: all of the user's. */
int servers_db_rows(struct servers_db *db, const char *user, const char *name, struct arena *arena,
                    struct servers_row **ret_rows, size_t *ret_count, struct err *err);
int servers_db_put(struct servers_db *db, const char *user, const char *name, const char *text, bool *ret_created,
                   struct err *err);
int servers_db_remove(struct servers_db *db, const char *user, const char *name, struct err *err);

#endif
