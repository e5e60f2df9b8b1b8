/* fault.h - faults in a file after which reading can continue. A reader normally stops at the first fault.
 * Where a listener is set it reports the fault to it and continues, so that all faults are found.
 *
 *     zt_faults all = {.tell = print_line, .user = me};
 *     zt_faults_listen(ctx, &all);
 *     ... open the file; NULL: the context has a last fault, after which reading cannot continue ...
 *     zt_faults_listen(ctx, NULL);
 *
 * A file opened this way may only be inspected: after a fault, tensors may lie anywhere.
 */
#ifndef ZT_FAULT_H
#define ZT_FAULT_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_faults {
    void (*tell)(void *user, const char *text);
    void *user;
} zt_faults;

zt_status zt_faults_listen(zt_ctx *ctx, const zt_faults *faults); /* borrowed; NULL: no listener */
/* ZT_OK: a listener took it; otherwise ZT_EDATA, and the fault is in the context. */
zt_status zt_faults_tell(zt_ctx *ctx, const char *fmt, ...) ZT_PRINTF(2, 3);
/* The same for a fault already in the context, as `status`: a listener takes it out of the context.
 * Errors other than ZT_EDATA stay. */
zt_status zt_faults_pass(zt_ctx *ctx, zt_status status);

#ifdef __cplusplus
}
#endif
#endif
