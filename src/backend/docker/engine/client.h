/* Shared by the engine client's files: where the engine is, and its clients. */
#ifndef CUBBY_BACKEND_ENGINE_CLIENT_H
#define CUBBY_BACKEND_ENGINE_CLIENT_H

#include <pthread.h>

#include "backend/docker/engine/engine.h"

/* Where it is. Of the engine, constant. */
struct engine_place {
    char *url;     /* as people write it */
    char *address; /* as http_client_foreign takes it */
    bool near;     /* a unix socket */
    bool tls;
    char *cert_dir; /* NULL: the system's authorities, no certificate of ours */
};
int engine_place_find(const struct engine_where *where, struct engine_place *ret_place, struct err *err);
void engine_place_done(struct engine_place *place);

/* A new client, for its owner alone. */
int engine_client(struct engine *engine, struct http_client **ret_client, struct err *err);
/* The connection is lost: the next answer may come from another engine. */
void engine_lost(struct engine *engine);
/* Starts a thread that takes no signals, to be joined or detached. 0 or an errno value. */
int engine_thread(void *(*run)(void *argument), void *argument, pthread_t *ret_thread);
/* Bytes of a stream of lines: `each` gets every whole line, without its end, in `line` (buf_max). A line that does not
 * fit is passed over; true: there was one. */
bool engine_lines(struct buf *line, const char *data, size_t len, void (*each)(void *user), void *user);
/* INVALID: a caller put something into the request that could end its line. */
int engine_checked(const struct http_call *call, struct err *err);

/* ---- engine/stream.c ---- */

/* Frames of a hijacked connection: 1 byte which stream, 3 zeros, 4 bytes length (big endian), payload. */
struct engine_frames {
    uint8_t header[8];
    unsigned have;
    uint32_t left;
};
/* Takes from the front of data: how many bytes were used up; of them the last *ret_len are payload of *ret_stream: 1
 * stdout, 2 stderr (0, stdin, is stdout; 3, the engine's own error, is stderr). PROTOCOL. */
int engine_frames_take(struct engine_frames *frames, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                       int *ret_stream, struct err *err);

#endif
