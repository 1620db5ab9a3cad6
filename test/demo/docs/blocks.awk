# The C++ of a document as one program: awk -v source=docs/tutorial.md -f blocks.awk docs/tutorial.md > tutorial.cpp
#
#   ```cpp         with a main: a program of its own; without: statements, run inside a function of their own
#   ```cpp file    declarations at namespace scope, which later blocks of the document see
#   <!-- cpp file  the same, not shown to readers, up to the line -->
#   <!-- cpp after statements at the end of the function before: what checks its results
#
# Blocks may be indented, as in lists. They run in order. #include lines go to the top.
function fail(what) { print "#error " source ": " what; failed = 1; exit 1 }
function open(closing) {
  inside = 1
  close_line = closing
  kind = $NF
  body = ""
  first = NR + 1
}
function flush() {
  if (statements != "") code = code "void run_" count "() {\n" statements "}\n"
  statements = ""
}
function close_block(located) {
  inside = 0
  located = "#line " first " \"" source "\"\n" body
  if (kind == "after") {
    if (statements == "") fail("a block 'after' without one before it")
    statements = statements located
    return
  }
  flush()
  if (kind == "file") {
    code = code located
    return
  }
  lines[++count] = first
  if (body ~ /int main\(/) {
    sub(/int main\(/, "int run_main(", located)
    sub(/}\n$/, "return 0;\n}\n", located)  # only main itself may end without
    code = code "namespace block_" count " {\n" located "}\nvoid run_" count "() { block_" count "::run_main(); }\n"
  } else {
    statements = located
  }
}
!inside && /^ *```cpp( file)?$/ { open("```"); next }
!inside && /^ *<!-- cpp (file|after)$/ { open("-->"); next }
!inside && /^ *(```cpp|<!-- cpp)/ { fail("line " NR " opens a block of no known kind") }
inside && $1 == close_line { close_block(); next }
inside && /^ *#include / { includes = includes $0 "\n"; body = body "\n"; next }
inside { body = body $0 "\n" }
END {
  if (failed) exit 1
  if (inside) fail("a block is not closed")
  flush()
  print "// Made from " source " by test/demo/docs/blocks.awk."
  if (code != "") print "#include <sinter/sinter.hpp>\n#include <cstdio>\n#include <vector>"
  print includes "namespace {\n" code "}\n"
  print "int main() {"
  for (i = 1; i <= count; ++i) {
    print "  try {\n    run_" i "();\n  } catch (sinter::exception const& e) {"
    print "    std::fprintf(stderr, \"" source ":" lines[i] ": %s\\n\", e.what());\n    return 1;\n  }"
  }
  print "}"
}
