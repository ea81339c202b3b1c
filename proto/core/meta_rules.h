// The rules that rows of the op table name: ShapeBroadcast for `broadcast(self, other)`, DTypePromote for
// `promote(self, other)`. A shape rule fills sizes, strides and offset of an output, a dtype rule its dtype.
//
// Pure functions; any thread may call them. Their errors are PyTorch's, in its words where it has well-known ones.
#pragma once

#include "proto/core/op_args.h"

namespace telensor::rules {

#define TD_RULE(name) absl::Status name(const RuleArgs& args, int output, OpMetas* out)

// shape_rules.cc: creation, pointwise, reductions
TD_RULE(ShapeSize);
TD_RULE(ShapeSizeOf);
TD_RULE(ShapeCount);
TD_RULE(ShapeArange);
TD_RULE(ShapeEye);
TD_RULE(ShapeCopyInto);
TD_RULE(ShapeFillInto);
TD_RULE(ShapePointwise);
TD_RULE(ShapeGelu);
TD_RULE(ShapeGeluBackward);
TD_RULE(ShapeBroadcast);
TD_RULE(ShapeBroadcastGrad);
TD_RULE(ShapeContiguous);
TD_RULE(ShapeTo);
TD_RULE(ShapeReduce);
TD_RULE(ShapeReduceNonempty);
TD_RULE(ShapeReduceOne);
TD_RULE(ShapeArgReduce);
TD_RULE(ShapeScan);
TD_RULE(ShapePickBackward);
TD_RULE(ShapeUnreduce);
TD_RULE(ShapeUnreduced);
TD_RULE(ShapeScalar);
TD_RULE(ShapeLoss);
TD_RULE(ShapeReduceLoss);
TD_RULE(ShapeDropout);
TD_RULE(ShapeClampTensor);
TD_RULE(ShapeFusedStep);

// matmul_rules.cc
TD_RULE(ShapeMm);
TD_RULE(ShapeBmm);
TD_RULE(ShapeAddmm);
TD_RULE(ShapeDot);
TD_RULE(ShapeMv);
TD_RULE(ShapeOuter);
TD_RULE(ShapeBaddbmm);
TD_RULE(ShapeMatmul);
TD_RULE(ShapeLinear);

// view_rules.cc
TD_RULE(ShapeAlias);
TD_RULE(ShapeView);
TD_RULE(ShapeReshape);
TD_RULE(ShapePermute);
TD_RULE(ShapeTranspose);
TD_RULE(ShapeT);
TD_RULE(ShapeUnsqueeze);
TD_RULE(ShapeSqueeze);
TD_RULE(ShapeSqueezeDim);
TD_RULE(ShapeExpand);
TD_RULE(ShapeSelect);
TD_RULE(ShapeSlice);
TD_RULE(ShapeNarrow);
TD_RULE(ShapeAsStrided);
TD_RULE(ShapeSliceBackward);
TD_RULE(ShapeAsStridedBackward);
TD_RULE(ShapeSplit);
TD_RULE(ShapeSplitSizes);
TD_RULE(ShapeChunk);
TD_RULE(ShapeUnbind);
TD_RULE(ShapeFlatten);
TD_RULE(ShapeUnflatten);
TD_RULE(ShapeViewLike);
TD_RULE(ShapeReshapeLike);
TD_RULE(ShapeExpandLike);
TD_RULE(ShapeRepeat);

// indexing_rules.cc
TD_RULE(ShapeCat);
TD_RULE(ShapeStack);
TD_RULE(ShapeFlip);
TD_RULE(ShapeTriangle);
TD_RULE(ShapeGather);
TD_RULE(ShapeScatter);
TD_RULE(ShapeIndexSelect);
TD_RULE(ShapeIndexAdd);
TD_RULE(ShapeIndex);
TD_RULE(ShapeIndexPut);
TD_RULE(ShapeMaskedSelect);
TD_RULE(ShapeNonzero);
TD_RULE(ShapeNonzeroCounted);
TD_RULE(ShapeEmbedding);
TD_RULE(ShapeEmbeddingBackward);
TD_RULE(ShapeOneHot);
TD_RULE(ShapeTopk);

// nn_rules.cc
TD_RULE(ShapeConv2d);
TD_RULE(ShapeConv1d);
TD_RULE(ShapePool2d);
TD_RULE(ShapeAdaptivePool2d);
TD_RULE(ShapeBatchNorm);
TD_RULE(ShapeChannels);
TD_RULE(ShapeLayerNorm);
TD_RULE(ShapeRows);
TD_RULE(ShapeNllLoss);
TD_RULE(ShapeNllRows);
TD_RULE(ShapeCrossEntropy);

// nn_backward_rules.cc: gradients of layers
TD_RULE(ShapeConv2dInputBackward);
TD_RULE(ShapeConv2dWeightBackward);
TD_RULE(ShapeMaxPool2dBackward);
TD_RULE(ShapeAvgPool2dBackward);
TD_RULE(ShapeAdaptivePool2dBackward);
TD_RULE(ShapeBatchNormBackward);
TD_RULE(ShapeLayerNormBackward);
TD_RULE(ShapeSoftmaxBackward);
TD_RULE(ShapeNllLossBackward);

// dtype_rules.cc
TD_RULE(DTypeFull);
TD_RULE(DTypeDefault);
TD_RULE(DTypeDefaultFloat);
TD_RULE(DTypeLike);
TD_RULE(DTypeArange);
TD_RULE(DTypeInt64);
TD_RULE(DTypeSame);
TD_RULE(DTypeSameFloat);
TD_RULE(DTypeSameDtype);
TD_RULE(DTypeConvert);
TD_RULE(DTypeConvertFloat);
TD_RULE(DTypePromote);
TD_RULE(DTypePromoteArithmetic);
TD_RULE(DTypePromoteFloat);
TD_RULE(DTypePromoteList);
TD_RULE(DTypeDivMode);
TD_RULE(DTypePower);
TD_RULE(DTypePowerGrad);
TD_RULE(DTypeWhere);
TD_RULE(DTypeClamp);
TD_RULE(DTypeFloat);
TD_RULE(DTypeArithmetic);
TD_RULE(DTypeSquare);
TD_RULE(DTypeCompare);
TD_RULE(DTypeBitwise);
TD_RULE(DTypeSum);
TD_RULE(DTypeMean);
TD_RULE(DTypeTruth);
TD_RULE(DTypeIndexOf);
TD_RULE(DTypeIndexed);
TD_RULE(DTypeIndexedList);
TD_RULE(DTypeScattered);
TD_RULE(DTypeIndexPut);
TD_RULE(DTypeMaskedFill);
TD_RULE(DTypeAccumulate);
TD_RULE(DTypeNorm);
TD_RULE(DTypeNormBackward);
TD_RULE(DTypeLoss);
TD_RULE(DTypeNll);
TD_RULE(DTypeCrossEntropy);
TD_RULE(DTypeDropout);
TD_RULE(DTypeFusedStep);

// random_rules.cc
TD_RULE(DTypeRandint);
TD_RULE(DTypeRandintLike);
TD_RULE(DTypeRandperm);
TD_RULE(DTypeUniform);

#undef TD_RULE

// PyTorch's words for a dtype that it has no kernel for.
absl::Status NotImplemented(absl::string_view kernel, DType dtype);

}  // namespace telensor::rules
