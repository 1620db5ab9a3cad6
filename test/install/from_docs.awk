# Writes each file that docs/embedding.md shows: awk -v out=FOLDER -f from_docs.awk docs/embedding.md
# A file is the fenced block behind a line `<!-- file NAME -->`.
/^<!-- file .* -->$/ { name = $3; next }
/^```/ && name != "" && !inside { inside = 1; next }
/^```/ && inside { inside = 0; close(out "/" name); name = ""; next }
inside { print > (out "/" name) }
END { if (inside) exit 1 }
