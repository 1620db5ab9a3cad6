# What Doxygen reads in place of a header or a page: awk -f doxygen_filter.awk FILE
#
# Header: the comment that it opens with describes the file; the inline namespace, which is a macro, is left out, since
# to its users every name is sinter::name; words of comments that look like commands or tags are plain text, and lines
# indented by three blanks are code. Page: comments of the tests' own are taken out (they hold code that checks
# results), the words behind ```cpp, which Doxygen does not know, and links to files that the site does not have.
function comment(text, prefix,   is_code) {
  is_code = text ~ /^ ?   /
  if (is_code && !code) print prefix " @code"
  if (code && !is_code) { print prefix " @endcode"; code = 0 }
  if (is_code) code = 1
  else { gsub(/[\\@]/, "\\\\&", text); gsub(/[<#%]/, "\\\\&", text) }
  print prefix text
}
function close_code(prefix) {
  if (code) print prefix " @endcode"
  code = 0
}
FILENAME ~ /\.hpp$/ {
  if (FNR == 1) { opening = 1; print "/// @file" }
  if (opening && !/^\/\//) { close_code("///"); opening = 0; print "" }
  if (opening) { comment(substr($0, 3), "///"); next }
  if (/^ *\/\/\/ /) {
    match($0, /^ *\/\/\//)
    comment(substr($0, RLENGTH + 1), substr($0, 1, RLENGTH))
    next
  }
  close_code("///")
  gsub(/namespace sinter::inline SINTER_ABI/, "namespace sinter")
  print
  next
}
/^ *<!-- (cpp|file) ?/ { skipping = !/-->/; next }
skipping { if (/-->/) skipping = 0; next }
{
  sub(/```cpp file$/, "```cpp")
  sub(/```c\+\+$/, "```cpp")
  while (match($0, /\[[^][]*\]\((\.\.\/)?(examples|packaging|ports|include|LICENSE)[^)]*\)/)) {
    link = substr($0, RSTART + 1, RLENGTH - 1)
    $0 = substr($0, 1, RSTART - 1) substr(link, 1, index(link, "]") - 1) substr($0, RSTART + RLENGTH)
  }
  print
}
