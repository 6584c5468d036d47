# parts.sh: what tests/gpu/check and tests/gpu/visit have in common: a run's folders and report, parts with a time
# limit each, the build, generated models. Sourced in the root of the tree; `begin` comes first.
#   CHECK_ONLY=part,…    these parts alone (names as in the report; "parity" stands for all of its themes)
#   CHECK_SECONDS=N      the time of all parts together
#   CHECK_COMMIT=id      what the report calls the commit, where the tree has no .git
#   CHECK_ARCH=90-real   the kinds of device to build for, instead of those that nvidia-smi shows
failed=0
models=

say() { printf '==> [%3d s] %s\n' "$SECONDS" "$*"; }

# begin SCRIPT SECONDS [--dry BUILD] [FOLDER]: an empty report in FOLDER; what an earlier run found is not this one's.
# A dry run has the programs of BUILD, which run the kernels on the processor, and tiny shapes.
begin() {
  script=$1
  seconds_all=${CHECK_SECONDS:-$2}
  shift 2
  is_dry=no
  bin=build/gpu
  suffix=
  banyan=$bin/banyan
  if [ "${1:-}" = --dry ]; then
    is_dry=yes
    bin=$2
    suffix=_simt
    banyan=$bin/gpu_banyan_simt
    shift 2
  fi
  folder=${1:-build/gpu}
  logs=$folder/log
  [ $is_dry = yes ] || logs=build/gpu/log # what a lent machine gives back is few files
  rm -rf "$logs" "$folder"/report.{txt,json}
  mkdir -p "$folder" "$logs" || exit 2
  figures=$logs/figures.jsonl
  parts=$logs/parts.tsv
  advice=$logs/advice.tsv
  : >"$figures"
  : >"$parts"
  : >"$advice"
  trap '[ -z "$models" ] || rm -rf "$models"' EXIT
  trap 'save; exit 143' TERM INT
}

# The report so far and all logs, each put in its place as a whole. A model's writer saves beside the parts.
save() {
  (
    flock 9
    ! command -v python3 >/dev/null || make_report >"$logs/report.log" 2>&1
    tar -cf "$folder/logs.tar.part" -C "$logs" . 2>/dev/null && mv -f "$folder/logs.tar.part" "$folder/logs.tar"
    # For visit 3, while this machine is kept.
    [ $is_dry = yes ] || cp "$folder/report.json" "build/gpu/former-${script// /-}.json" 2>/dev/null
  ) 9>"$logs.lock"
}
make_report() { python3 tests/gpu/check_report.py "$logs" "$folder" "$is_dry" "$script"; }

# advise WHAT WORDS…: a line of the report that says what to do about a part, or about the machine.
advise() {
  local what=$1
  shift
  say "$what: $*"
  printf '%s\t%s\n' "$what" "$*" >>"$advice"
}

# wanted NAME: whether CHECK_ONLY has it, or the name of its family before the first "_".
wanted() {
  [ -z "${CHECK_ONLY:-}" ] || [[ ",$CHECK_ONLY," == *",$1,"* || ",$CHECK_ONLY," == *",${1%%_*},"* ]]
}
# Likewise of any part whose name begins so.
any_wanted() { wanted "$1" || [[ ",$CHECK_ONLY," == *",$1"* ]]; }

# skip NAME WHY…: a part that cannot be here.
skip() {
  local name=$1
  shift
  wanted "$name" || return 0
  printf '%s\tnot here\t0\n' "$name" >>"$parts"
  advise "$name" "$*"
}

# Runs a command. When its time ends, cuda-gdb says first where the device stands, for 30 s at most.
watched() {
  local words=$1 child
  shift
  set -m # a group of its own, for what the command itself starts
  "$@" &
  child=$!
  trap 'timeout -k 5 25 cuda-gdb -batch -p $child -ex "info cuda kernels" -ex "thread apply all bt" >"$words" 2>&1
    kill -KILL -- -$child' TERM
  wait "$child"
}
export -f watched

# limited NAME SECONDS CMD…: within so many seconds; what it says goes to a log.
limited() {
  local name=$1 limit=$2
  shift 2
  if command -v cuda-gdb >/dev/null; then
    timeout --foreground -k 45 "$limit" bash -c 'watched "$@"' _ "$logs/$name.hang.txt" "$@"
  else
    timeout -k 5 "$limit" "$@"
  fi >"$logs/$name.txt" 2>&1
}

# part NAME LIMIT CMD…: its state goes to the report, with what to do where it did not come to a good end.
part() {
  local name=$1 limit=$2 begin=$SECONDS status state left=$((seconds_all - SECONDS))
  shift 2
  wanted "$name" || return 0
  [ "$limit" -le $left ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    state="not begun"
    status=124
    advise "$name" "no time was left: run it alone, with CHECK_ONLY=$name"
  else
    say "$name"
    limited "$name" "$limit" "$@"
    status=$?
    case $status in
      0) state=ok ;;
      77) state="not here" ;;
      124) state="out of time" ;;
      137) state="out of time" # or killed before it, for memory
        [ $((SECONDS - begin)) -ge "$limit" ] || state="failed (killed)" ;;
      *) state="failed ($status)" ;;
    esac
    [ $status = 0 ] || tail -n 5 "$logs/$name.txt"
    advise_state "$name" "$state"
  fi
  printf '%s\t%s\t%d\n' "$name" "$state" $((SECONDS - begin)) >>"$parts"
  save
  return $status
}
check() { part "$@" || failed=1; }

# What to do about a part that ended so. The first reason that its log shows.
advise_state() {
  local name=$1 state=$2 log=$logs/$1.txt
  says() { grep -Eqs "$1" "$log"; }
  case $state in
    ok) ;;
    "not here") advise "$name" "$(tail -n 1 "$log")" ;;
    "out of time") advise "$name" "it hangs or is slow: see the end of $name.txt, and $name.hang.txt where cuda-gdb is;" \
      "then alone with CHECK_ONLY=$name, and with --no-early and --no-graphs" ;;
    "failed (killed)") advise "$name" "killed before its time, most likely for memory: see what is free in the first" \
      "lines, and run it alone with CHECK_ONLY=$name" ;;
    *) if says 'has compute capability'; then
        advise "$name" "the device is too old: it takes one of sm_80 or later"
      elif says 'no kernel image|invalid device function'; then
        advise "$name" "this build has no code for the device: remove build/gpu, or give CHECK_ARCH"
      elif says 'illegal memory access|misaligned address|illegal instruction'; then
        advise "$name" "it touched what it may not: memcheck_of_$name.txt names the place, where compute-sanitizer is"
      elif says 'ABOVE ITS BOUND'; then
        advise "$name" "slightly above: the bound wants another reason; far off and always the same: the smallest" \
          "case that fails; moving: --no-early, --no-graphs, then racecheck"
      elif says 'No space left|cannot be written'; then
        advise "$name" "the disk is full: give TMPDIR a place with more room"
      elif says 'no memory|out of memory|not fit memory'; then
        advise "$name" "the device or the machine has too little memory for it: the log says for what"
      else
        advise "$name" "see the end of $name.txt in logs.tar"
      fi ;;
  esac
}

# The whole report, and the script's end.
report() {
  if [ -n "${CHECK_ONLY:-}" ] && ! awk '$1 != "build" { found = 1 } END { exit !found }' "$parts"; then
    advise CHECK_ONLY "no part has one of these names: $CHECK_ONLY"
    failed=1
  fi
  save
  if command -v python3 >/dev/null; then
    make_report || failed=1
  else
    say "no python3: no table; figures are in $figures"
  fi
}

# What machine this is, in the report's first lines; each command may be missing or silent.
facts() {
  local commit=${CHECK_COMMIT:-}
  [ -n "$commit" ] || commit=$(git rev-parse --short HEAD 2>/dev/null) || commit=$(cat COMMIT 2>/dev/null)
  echo "commit: ${commit:-unknown: give CHECK_COMMIT}"
  echo "driver: $(timeout 20 nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,power.limit \
    --format=csv,noheader 2>&1 | head -8 | paste -sd ';')"
  echo "nvcc: $(nvcc --version 2>&1 | sed -n '/release/p' | head -1)"
  echo "cublasLt: $(sed -n 's/^BANYAN_CUBLAS_HEADER:[A-Z]*=//p' "$bin/CMakeCache.txt" 2>/dev/null)"
  echo "processor: $(lscpu 2>/dev/null | sed -n 's/^Model name: *//p' | head -1), $(nproc) processors"
  echo "memory: $(free -m 2>/dev/null | awk 'NR == 2 { print $2 " MiB, " $7 " free" }')"
  echo "disk: $(df -Pm . /dev/shm "${TMPDIR:-/tmp}" 2>/dev/null | awk 'NR > 1 { print $6 " " $4 " MiB free" }' | paste -sd ';')"
}

# The kinds of device that nvidia-smi shows, of those that can be built for; and what it lacks.
kinds_of_device() {
  local all kinds
  all=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]$')
  kinds=$(awk -F. '$1 >= 8 { print $1 $2 "-real" }' <<<"$all" | sort -u | paste -sd ';')
  if [ -z "$all" ]; then
    advise machine "nvidia-smi is missing or says nothing: built for sm_90, unless CHECK_ARCH=80-real or the like" \
      "names another"
  elif [ -z "$kinds" ]; then
    advise machine "its devices are too old (compute capability $(paste -sd ' ' <<<"$all")): it takes one of sm_80 or later"
  fi
  kinds=${CHECK_ARCH:-${kinds:-90-real}}
  generator+=("-DBANYAN_CUDA_ARCHITECTURES=$kinds")
}

# Only this machine's own kinds of device: a third of the time.
build() {
  local generator=()
  say "build"
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin # compute-sanitizer is there, too, where nvcc is elsewhere
  # Where containers have the driver's library.
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
  [ -f build/gpu/CMakeCache.txt ] || { command -v ninja >/dev/null && generator=(-G Ninja); } # what it was stays
  kinds_of_device
  if ! { cmake -S . -B build/gpu "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBANYAN_CUDA=ON \
    -DBANYAN_GATEWAY=OFF -DBANYAN_TESTS=OFF -DBANYAN_WERROR=OFF && timeout 240 cmake --build build/gpu -j "$(nproc)"; } \
    >"$logs/build.txt" 2>&1; then
    tail -n 40 "$logs/build.txt"
    printf 'build\tfailed\t%d\n' "$SECONDS" >>"$parts"
    facts >"$logs/machine.txt"
    advise build "see the end of build.txt; nvcc must be on PATH, or in /usr/local/cuda/bin; else build elsewhere and carry" \
      "the programs of build/gpu, stripped"
    save
    say "it does not build: see $logs/build.txt"
    exit 2
  fi
  printf 'build\tok\t%d\n' "$SECONDS" >>"$parts"
}

# Builds unless it is a dry run; then the machine's lines.
open_machine() {
  [ $is_dry = yes ] || build
  timeout 30 "$banyan" version >"$logs/version.txt" 2>&1
  facts >"$logs/machine.txt"
  timeout 30 nvidia-smi -q >"$logs/nvidia-smi.txt" 2>&1
  cat "$logs/machine.txt"
  save
}

# no_device NAME: whether that part found none, with what to do about it in the report.
no_device() {
  local log=$logs/$1.txt
  grep -qs '^no CUDA device' "$log" || return 1
  if grep -qs insufficient "$log"; then
    advise machine "the driver is older than the toolkit, or its library is not found: it takes a driver of the toolkit's" \
      "version, with the folder of its libcuda.so.1 in LD_LIBRARY_PATH"
  elif command -v nvidia-smi >/dev/null; then
    advise machine "nvidia-smi is here and the driver shows no device: look at CUDA_VISIBLE_DEVICES, and at who may open" \
      "/dev/nvidia*"
  else
    advise machine "there is no device: it builds, and nothing was run"
  fi
  save
}

# Models are written beside the checks: into memory where it is large enough.
find_place() { # GB
  local place
  for place in /dev/shm "${TMPDIR:-/tmp}" build/gpu; do
    [ "$(df -Pk "$place" 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt "$1"000000 ] 2>/dev/null || continue
    models=$(mktemp -d "$place/banyan.XXXXXX") && return
  done
  return 1
}

# write SHAPE TYPE [LAYERS]: a part that others need: CHECK_ONLY does not name it.
write() {
  local name=$1-$2${3:+-$3}
  local CHECK_ONLY=
  [ -n "$models" ] || return
  part "write_${name//-/_}" 120 "$bin/gpu_shape" "$1" "$2" "$models/$name.gguf" ${3:+"$3"} && return
  rm -f "$models/$name.gguf" # what is there of it is no model
  advise "write_${name//-/_}" "the model was not written whole and is removed; what needs it was not run"
  return 1
}
drop() { [ -z "$models" ] || rm -f "$models"/*; }

# bench SHAPE TYPE[_free|_int4|…] LIMIT OPTIONS…: the engine's step, whole models; what it prints is JSON.
bench() {
  local shape=$1 type=$2 limit=$3
  shift 3
  [ -f "$models/$shape-${type%%_*}.gguf" ] || return
  part "bench_${shape}_$type" "$limit" "$banyan" bench --model "$models/$shape-${type%%_*}.gguf" --json "$@"
  case $? in # without an end it is no rate; a card may be too small; all else, an "illegal memory access", is a fault
    0 | 124 | 137) ;;
    *) grep -Eq 'no memory|out of memory|not fit memory' "$logs/bench_${shape}_$type.txt" || failed=1 ;;
  esac
}

# Last, with the time that is left: it slows every access many times over. What it finds fails the check, also
# where it comes to no end; a device may refuse it.
sanitize() { # TOOL LIMIT OPTIONS…
  local name=sanitizer_$1
  if ! command -v compute-sanitizer >/dev/null; then
    skip "$name" "no compute-sanitizer: it is in the toolkit's bin, which must be on PATH"
    return
  fi
  part "$name" "$2" compute-sanitizer --tool "$1" "${@:3}" --error-exitcode 9 "$bin/gpu_parity"
  if [ $? = 9 ] || grep -Eqs '^=+ .*(Invalid __|Misaligned|Race reported|hazard detected)' "$logs/$name.txt"; then
    printf '%s_found\tfailed (9)\t0\n' "$name" >>"$parts"
    failed=1
  fi
}
