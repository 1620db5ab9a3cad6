# The layers, lowest first: each row a level and the paths under include/sinter/ that belong to it. A header
# includes headers of its own level or of a lower one. A path ends in / for a folder; the most exact row wins.
set(sinter_layers
  "0 config.hpp base/"
  "1 core/ isa/"
  "2 expr/"
  "3 plan/"
  "4 reference/ jit/"
  "5 backend/"
  "6 run/"
  "7 sinter.hpp network.hpp backends.hpp openmp.hpp")

# Headers of others that few may include: a regex of what is included, then a regex of who may.
set(sinter_walls
  "^xbyak/|^xbyak_util" "^jit/assembler\\.hpp$"
  "dnnl" "^backend/onednn[a-z_]*\\.hpp$"
  "^doctest|^benchmark/|^gtest" "^$")

# Lines that a header may have: a regex of the path, then the limit; the first that matches holds.
set(sinter_line_limits
  "^jit/" 600
  "." 400)
