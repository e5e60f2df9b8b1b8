/* zt/all.h - every public header. */
#ifndef ZT_PUBLIC_ALL_H
#define ZT_PUBLIC_ALL_H

#include "lib/zt.h"
#include "lib/zt/dna.h"
#include "lib/zt/engine.h"
#include "lib/zt/files.h"
#include "lib/zt/io.h"
#include "lib/zt/llm.h"
#include "lib/zt/nn.h"
#include "lib/zt/ops.h"
#include "lib/zt/program.h"
#include "lib/zt/quantize.h"
#include "lib/zt/run.h"
#include "lib/zt/sign.h"
#include "lib/zt/train.h"

#endif
