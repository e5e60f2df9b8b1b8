/* zt.h - the public face of libzt: every room's header. Each header is that room's manual. */
#ifndef ZT_H
#define ZT_H

#include "lib/base/base.h"
#include "lib/tensor/tensor.h"
#include "lib/tensor/quantize.h"
#include "lib/tensor/storage.h"
#include "lib/ops/ops.h"
#include "lib/prog/prog.h"
#include "lib/engine/engine.h"
#include "lib/engine/roof.h"
#include "lib/run/run.h"
#include "lib/run/pages.h"
#include "lib/io/gguf.h"
#include "lib/io/gguf_write.h"
#include "lib/io/imatrix.h"
#include "lib/io/fault.h"
#include "lib/io/meta.h"
#include "lib/io/checkpoint.h"
#include "lib/io/safetensors.h"
#include "lib/io/safetensors_write.h"
#include "lib/io/array.h"
#include "lib/io/npy.h"
#include "lib/io/npz.h"
#include "lib/io/pt.h"
#include "lib/io/netjson.h"
#include "lib/dna/dna.h"
#include "lib/llm/llm.h"
#include "lib/llm/mix.h"
#include "lib/llm/importance.h"
#include "lib/llm/budget.h"

#endif
