/* The store: boxes and layers in a btrfs of cubby's own, an image file in the state directory. A box's files are then a
 * subvolume: made and removed in microseconds, bounded by the kernel, kept as they are by a snapshot while its
 * processes run.
 *
 * STATE/store.img   the image; all its space is taken from the disk, so the file system in it never meets a full one
 * STATE/store       where it is mounted STATE/boxes, layers, trash   links to the directories of that name in it
 * Without a store these three are directories. Which it is was decided when the first box was made. */
#ifndef CUBBY_BACKEND_STORE_H
#define CUBBY_BACKEND_STORE_H

#include "backend/backend.h"

/* The qgroup that all boxes of a store are in: together they leave a part of it to the daemon, which could not delete
 * anything otherwise. Not in anybody else's btrfs. */
#define STORE_GROUP (1ull << 48 | 0x6375626279ull)

struct store;

/* Before anything in the state directory is opened. *ret_store NULL: no store exists, and none is wanted. */
int store_open(const struct backend_env *env, struct store **ret_store, struct err *err);
void store_serve(struct store *store); /* from now on it grows when it has to */
/* Everything in it is closed. Unmounted, unless another daemon uses it. NULL is fine. */
void store_close(struct store *store);
/* The same, and the image goes, with all that was in it. false: it is in use, and stays. */
bool store_remove(struct store *store);
/* One line for the log of the daemon's start. */
void store_describe(const struct store *store, char *text, size_t size);

/* Snapshots `fs` of a box's directory as `fs` of a layer's, while its processes run. NOT_FOUND: it is not a
 * subvolume, or the kernel would lose count of its quotas; then make a copy that shares its blocks. */
int store_snapshot(int from_box_dir, int to_layer_dir, struct err *err);

#endif
