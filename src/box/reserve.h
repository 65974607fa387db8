/* STATE/reserve: space that lets a daemon start on a full disk. */
#ifndef CUBBY_BOX_RESERVE_H
#define CUBBY_BOX_RESERVE_H

/* Before anything is opened: makes the reserve if the disk has ample space, releases it if it has none. */
void reserve_begin(const char *state_dir);
/* After everything was closed: made again if it fits. */
void reserve_end(const char *state_dir);

#endif
