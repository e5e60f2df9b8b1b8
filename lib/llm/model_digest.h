/* model_digest.h - which model it is, whatever file holds it. */
#ifndef ZT_MODEL_DIGEST_H
#define ZT_MODEL_DIGEST_H

#include "lib/base/digest.h"
#include "lib/io/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SHA-256 of all tensors in the order of their names as bytes: name and dtype, each with a zero byte; the rank and the dimensions
 * as i64; the stored bytes. It is the same for every container, and reads all of the model. `stop` is polled: true ends the call
 * with ZT_EINTR; NULL: never. ZT_ENOTSUP: libcrypto is missing; ZT_EIO. */
zt_status zt_model_digest(zt_gguf *gguf, bool (*stop)(void), uint8_t digest[ZT_DIGEST_BYTES]);

/* SHA-256 of what is known of the model's files without reading their tensors: for each file device, number, size, times of the
 * last change of content and of attributes; and of the header. While it stays the same, so does zt_model_digest. false: not known,
 * since a tensor is not in one piece of a file, or a file changed less than two seconds ago. */
bool zt_model_files_digest(const zt_gguf *gguf, uint8_t digest[ZT_DIGEST_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
