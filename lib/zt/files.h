/* zt/files.h - what is at a path, and what its names are.
 *
 *   base/foreign.h     files that are taken for models but are not: a Git LFS pointer, an HTML page
 *   base/attributes.h  mode, owner and attributes that an output keeps of the file it replaces
 *   base/digest.h      SHA-256, by libcrypto
 *   base/durable.h     outputs that need not survive a power failure
 *   base/near.h        the known name that is closest to a misspelled one
 *   base/sandbox.h     a process gives up what it does not need
 *   base/utf8.h        the number of characters of a text
 */
#ifndef ZT_PUBLIC_FILES_H
#define ZT_PUBLIC_FILES_H

#include "lib/base/foreign.h"
#include "lib/base/attributes.h"
#include "lib/base/digest.h"
#include "lib/base/durable.h"
#include "lib/base/near.h"
#include "lib/base/sandbox.h"
#include "lib/base/utf8.h"

#endif
