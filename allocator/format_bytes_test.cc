#include "allocator/format_bytes.h"

#include "gtest/gtest.h"

namespace telensor {
namespace {

TEST(FormatBytesTest, WritesSizesAsPyTorchDoes) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1024), "1024 bytes");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(1 << 20), "1024.00 KiB");
  EXPECT_EQ(FormatBytes(20 << 20), "20.00 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{2} << 30), "2.00 GiB");
}

}  // namespace
}  // namespace telensor
