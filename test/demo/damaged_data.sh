#!/usr/bin/env bash
# The demo on broken data: it exits with 1 and says what is wrong. damaged_data.sh DEMO DATA WORK
set -euo pipefail
demo=$1 data=$2 work=$3
rm -rf "$work"
mkdir -p "$work"

# expect NAME PATTERN: the demo on $work/NAME fails and prints PATTERN.
expect() {
  local out code=0
  out=$("$demo" "$work/$1" 2>&1) || code=$?
  [ "$code" = 1 ] || { echo "$1: exit code $code instead of 1"; exit 1; }
  grep -q -- "$2" <<<"$out" || { echo "$1: '$2' is not in: $out"; exit 1; }
}

mkdir "$work/missing"
expect missing 'digits_test.safetensors: cannot be opened'

cp -r "$data" "$work/short"
head -c 100000 "$data/digits_cnn.safetensors" >"$work/short/digits_cnn.safetensors"
expect short "digits_cnn.safetensors: tensor 'fc1.weight' has the data_offsets"

# The last 2560 bytes are fc2.weight. With zeros there the file is sound and the network says the same of every digit.
cp -r "$data" "$work/zeros"
size=$(stat -c %s "$data/digits_cnn.safetensors")
{ head -c $((size - 2560)) "$data/digits_cnn.safetensors"; head -c 2560 /dev/zero; } >"$work/zeros/digits_cnn.safetensors"
expect zeros 'WRONG f32 reads 487 digits right'
expect zeros 'Some claims do NOT hold'
