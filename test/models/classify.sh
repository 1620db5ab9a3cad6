#!/usr/bin/env bash
# sinter_classify from the command line: a good run, and each way to fail with exit code 1 and one sentence.
# classify.sh PROGRAM DATA WORK
set -euo pipefail
program=$1 data=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work"
cp "$data/picture.png" .
seq -f 'thing %g' 0 999 >labels.txt

# refuse PATTERN ARGUMENTS...: fails with a single line that matches.
refuse() {
  local pattern=$1 out code=0
  shift
  out=$("$program" "$@" 2>&1 >/dev/null) || code=$?
  [ "$code" = 1 ] || { echo "$*: exit code $code instead of 1"; exit 1; }
  [ "$(wc -l <<<"$out")" = 1 ] || { echo "$*: more than one line: $out"; exit 1; }
  grep -qE -- "$pattern" <<<"$out" || { echo "$*: '$pattern' is not in: $out"; exit 1; }
}
model=(--model squeezenet1_1)
formula=("${model[@]}" --weights formula)

out=$("$program" "${formula[@]}" --labels labels.txt picture.png)
[ "$(grep -cE '^ *[0-9]+\.[0-9]{2} %  thing [0-9]+$' <<<"$out")" = 5 ] || { echo "no five best: $out"; exit 1; }
grep -qE '^picture.png by squeezenet1_1 in f32, [0-9.]+ ms:$' <<<"$out" || { echo "no heading: $out"; exit 1; }
f32=$(grep -oE 'thing [0-9]+' <<<"$out" | head -n 1)
out=$("$program" "${formula[@]}" --labels labels.txt --precision bf16 picture.png)
bf16=$(grep -oE 'thing [0-9]+' <<<"$out" | head -n 1)
[ "$f32" = "$bf16" ] || { echo "f32 sees $f32, bf16 $bf16"; exit 1; }
plain=$("$program" "${formula[@]}" --explain picture.png)
grep -qE "class ${f32#thing }\$" <<<"$plain" || { echo "without labels: another class"; exit 1; }
grep -q 'features.3' <<<"$plain" || { echo "--explain shows no plan"; exit 1; }

refuse '^sinter_classify: --model, --weights and a picture are wanted' "${formula[@]}"
refuse "^sinter_classify: there is no model 'resnet19'" --model resnet19 --weights formula picture.png
refuse "^sinter_classify: there is no option '--size'" "${formula[@]}" --size 3 picture.png
refuse '^sinter_classify: --labels wants a value' "${formula[@]}" picture.png --labels
refuse "^sinter_classify: one picture is wanted; 'picture.png' and 'b.png' are given" "${formula[@]}" picture.png b.png
refuse "^sinter_classify: the precision is 'f64'; f32 or bf16 is wanted" "${formula[@]}" --precision f64 picture.png
refuse '^nothing.png: cannot be opened' "${formula[@]}" nothing.png
refuse '^labels.txt: cannot be read as a PNG or JPEG picture' "${formula[@]}" labels.txt
head -c 150 picture.png >cut.png
refuse '^cut.png: is damaged' "${formula[@]}" cut.png
head -n 10 labels.txt >few.txt
refuse '^few.txt: has 10 lines; 1000 are wanted' "${formula[@]}" --labels few.txt picture.png
refuse '^none.txt: cannot be opened' "${formula[@]}" --labels none.txt picture.png
refuse '^none.safetensors: cannot be opened' "${model[@]}" --weights none.safetensors picture.png
refuse '^picture.png: says that its header has' "${model[@]}" --weights picture.png picture.png
refuse "digits_cnn.safetensors: there is no tensor 'features.0.weight'" \
  "${model[@]}" --weights "$data/digits_cnn.safetensors" picture.png
