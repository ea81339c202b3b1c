// The explicit list of kernel families; each appends its {op, dtypes, function} entries.
#pragma once

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

void AppendPointwiseKernels(KernelList* list);   // pointwise.toml
void AppendBinaryKernels(KernelList* list);      // called by AppendPointwiseKernels
void AppendComparisonKernels(KernelList* list);  // comparison.toml, where, clamp, masked_fill, backward kernels
void AppendCopyKernels(KernelList* list);        // _copy
void AppendCreationKernels(KernelList* list);    // full, arange, linspace, eye
void AppendRandomKernels(KernelList* list);      // rows of kind random
void AppendReductionKernels(KernelList* list);   // reduction.toml
void AppendScanKernels(KernelList* list);        // cumsum, sort, topk
void AppendShapeKernels(KernelList* list);       // cat, stack, flip, tril, triu, _slice_backward, _as_strided_backward
void AppendIndexingKernels(KernelList* list);    // indexing.toml
void AppendMatmulKernels(KernelList* list);      // mm, bmm, addmm, linear
void AppendConvolutionKernels(KernelList* list); // conv2d and its backward
void AppendPoolingKernels(KernelList* list);     // max, avg and adaptive pooling
void AppendNormKernels(KernelList* list);        // batch_norm, layer_norm
void AppendSoftmaxKernels(KernelList* list);     // softmax, log_softmax, nll_loss
void AppendOptimKernels(KernelList* list);       // optim.toml

}  // namespace telensor::cpu::TT_CPU_VARIANT
