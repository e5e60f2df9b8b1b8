/* zt/io.h - model files, a container at a time.
 *
 *   io/checkpoint.h         any container, by its content: start here
 *   io/meta.h               metadata: an ordered list of keys with typed values
 *   io/gguf.h               GGUF, read; io/gguf_write.h writes
 *   io/safetensors.h        safetensors, in one file or in shards; io/safetensors_write.h writes
 *   io/npy.h, npz.h         arrays of NumPy
 *   io/pt.h                 checkpoints of PyTorch
 *   io/netjson.h            networks as JSON
 *   io/array.h              the description of a tensor that npy, npz, pt and netjson share
 *   io/imatrix.h            importance matrices
 *   io/base64.h             bytes as text
 *   io/fault.h              faults that a reader can continue behind, for checking files
 */
#ifndef ZT_PUBLIC_IO_H
#define ZT_PUBLIC_IO_H

#include "lib/io/checkpoint.h"
#include "lib/io/meta.h"
#include "lib/io/gguf.h"
#include "lib/io/gguf_write.h"
#include "lib/io/safetensors.h"
#include "lib/io/safetensors_write.h"
#include "lib/io/array.h"
#include "lib/io/npy.h"
#include "lib/io/npz.h"
#include "lib/io/pt.h"
#include "lib/io/netjson.h"
#include "lib/io/imatrix.h"
#include "lib/io/base64.h"
#include "lib/io/fault.h"

#endif
