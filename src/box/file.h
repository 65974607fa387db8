/* {file} records as the runner sends them. Private to box/. */
#ifndef CUBBY_BOX_FILE_H
#define CUBBY_BOX_FILE_H

#include "box/verb.h"

bool file_field(struct file_stat *stat, const struct field *field); /* one field into *stat; false: not a file's */
void file_from_fields(const struct fields *fields, struct file_stat *ret_stat); /* texts stay NULL */

#endif
