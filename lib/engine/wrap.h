/* wrap.h - private to lib/engine: an engine around an engine that passes everything on.
 *
 * A wrapper's vtable takes what it does not change from here; buffers and executables are the
 * inner engine's own.
 */
#ifndef ZT_WRAP_H
#define ZT_WRAP_H

#include "lib/engine/engine.h"

/* A cleared wrapper of `bytes` around inner, which is closed when there is no memory for it; NULL
 * then, and for inner NULL. */
void *zt_wrap_new(zt_engine *inner, const zt_engine_vt *vtable, size_t bytes);

void zt_wrap_close(zt_engine *engine);
bool zt_wrap_has(zt_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                 const zt_type output_types[]);
size_t zt_wrap_value_bytes(zt_engine *engine, const zt_type *type);
zt_ebuf *zt_wrap_alloc(zt_engine *engine, const zt_type *type);
zt_ebuf *zt_wrap_load(zt_engine *engine, const zt_type *type, const zt_store *store, int64_t handle);
void zt_wrap_free(zt_engine *engine, zt_ebuf *buffer);
zt_status zt_wrap_upload(zt_engine *engine, zt_ebuf *buffer, const void *host);
zt_status zt_wrap_download(zt_engine *engine, const zt_ebuf *buffer, void *host);
zt_status zt_wrap_write_part(zt_engine *engine, zt_ebuf *buffer, size_t offset, size_t bytes, const void *host);
zt_status zt_wrap_read_part(zt_engine *engine, const zt_ebuf *buffer, size_t offset, size_t bytes, void *host);
zt_executable *zt_wrap_prepare(zt_engine *engine, const zt_run_schedule *schedule);
void zt_wrap_unprepare(zt_engine *engine, zt_executable *executable);
zt_engine_report zt_wrap_report(const zt_engine *engine);

/* Replay with `mine` around the caller's watch: mine.before first, mine.after last. */
zt_status zt_wrap_replay(zt_engine *engine, zt_executable *executable, const void *const *inputs, void *const *outputs,
                         const zt_watch *mine, const zt_watch *callers);

#endif
