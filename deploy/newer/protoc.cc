// protoc with the C++ generator alone.
#include <google/protobuf/compiler/command_line_interface.h>
#include <google/protobuf/compiler/cpp/generator.h>

int main(int argc, char** argv) {
  google::protobuf::compiler::CommandLineInterface cli;
  cli.AllowPlugins("protoc-");
  google::protobuf::compiler::cpp::CppGenerator generator;
  cli.RegisterGenerator("--cpp_out", "--cpp_opt", &generator, "Writes C++.");
  return cli.Run(argc, argv);
}
