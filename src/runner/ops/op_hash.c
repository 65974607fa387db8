/* Hash: sha256 of one file, in a worker. Invariant: the size answered is what was read, not what stat said. */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"

static int hash_work(struct worker *worker, const struct fields *args, struct err *err) {
    static uint8_t data[256 << 10];
    autofd fd = -1;
    int r = op_open_file(worker->config, args, &fd, err);
    if (r < 0)
        return r;
    struct sha256_ctx context;
    sha256_init(&context);
    uint64_t size = 0;
    for (;;) {
        ssize_t n = read(fd, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "reading '%s'", args->text[FIELD_PATH]);
        if (n == 0)
            break;
        sha256_update(&context, (size_t)n, data);
        size += (uint64_t)n;
    }
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&context, sizeof digest, digest);
    autobuf out = buf_max(128);
    field_bytes(&out, FIELD_SHA256, digest, sizeof digest);
    field_number(&out, FIELD_SIZE, size);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_hash = {.op = OP_HASH, .work = hash_work};
