/* Files too large for a message: GET and POST /runner/files/{transfer}. */
#ifndef CUBBY_FRONT_RUNNER_FILE_H
#define CUBBY_FRONT_RUNNER_FILE_H

#include "backend/machine_transfer.h"
#include "front/front.h"

struct machine_transfers *runner_transfers(struct front *front);
int runner_file_get(struct http_request *request, struct box *unused, struct err *err);
int runner_file_post(struct http_request *request, struct box *unused, struct err *err);

#endif
