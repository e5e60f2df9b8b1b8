/* zt/sign.h - signatures of models.
 *
 *   sign/sign.h    keys; a model signed, and compared with its signature
 */
#ifndef ZT_PUBLIC_SIGN_H
#define ZT_PUBLIC_SIGN_H

#include "lib/sign/sign.h"

#endif
