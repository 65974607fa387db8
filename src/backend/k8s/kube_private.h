/* Shared by the files of this directory. */
#ifndef CUBBY_BACKEND_KUBE_PRIVATE_H
#define CUBBY_BACKEND_KUBE_PRIVATE_H

#include "backend/k8s/kube.h"
#include "http/client/client.h"

/* A connection of its own, for a watch, and the header with the token; NULL where there is no token. */
int kube_connect(struct kube *kube, struct http_client **ret_client, char **ret_header, struct err *err);
int kube_failed(int status, const struct buf *body, struct err *err); /* the Status of an answer as an error */

#endif
