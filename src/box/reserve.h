/* STATE/reserve: what lets a daemon start on a full disk. */
#ifndef CUBBY_BOX_RESERVE_H
#define CUBBY_BOX_RESERVE_H

/* Before anything is opened: makes the reserve where there is ample room, gives it up where there is none. */
void reserve_begin(const char *state_dir);
/* After everything was closed: made again if it fits. */
void reserve_end(const char *state_dir);

#endif
