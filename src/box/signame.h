/* Names of signals as people and clients write them. */
#ifndef CUBBY_BOX_SIGNAME_H
#define CUBBY_BOX_SIGNAME_H

#define SIGNAME_BYTES 24
const char *signame_text(int number, char text[SIGNAME_BYTES]); /* "SIGKILL" */
int signame_number(const char *name);                           /* "SIGTERM", "term" or "15"; 0: none */

#endif
