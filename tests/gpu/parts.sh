# parts.sh: what tests/gpu/check and tests/gpu/visit share: a run's folders and report, parts with a time limit each,
# the build, generated models. Source it in the root of the tree, and call `begin` first.
#   CHECK_ONLY=part,…    run only these parts (named as in the report; "parity" stands for all of its themes)
#   CHECK_SECONDS=N      time limit of all parts together
#   CHECK_COMMIT=id      the commit that the report names, where the tree has no .git
#   CHECK_ARCH=90-real   the architectures to build for, instead of those that nvidia-smi shows
failed=0
models=

say() { printf '==> [%3d s] %s\n' "$SECONDS" "$*"; }

# usage: prints what the comment at the top of the running script says, and ends.
usage() { # EXIT-STATUS
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&$(($1 == 0 ? 1 : 2))
  exit "$1"
}

# begin SCRIPT SECONDS [--dry [BUILD]] [FOLDER]: starts an empty report in FOLDER and removes an earlier one.
# A dry run uses tiny shapes and the programs of BUILD, which run the kernels on the processor.
begin() {
  local word words=()
  script=$1
  seconds_all=${CHECK_SECONDS:-$2}
  shift 2
  is_dry=no
  for word in "$@"; do
    case $word in
      --dry) is_dry=yes ;;
      -h | --help) usage 0 ;;
      -*)
        echo "$script: there is no option $word" >&2
        usage 2
        ;;
      *) words+=("$word") ;;
    esac
  done
  set -- "${words[@]}"
  bin=build/gpu
  suffix=
  banyan=$bin/banyan
  if [ $is_dry = yes ]; then
    bin=${1:-build/release}
    suffix=_simt
    banyan=$bin/gpu_banyan_simt
    [ -x "$banyan" ] || {
      echo "$script: $bin has no gpu_banyan_simt: build the preset release with -DBANYAN_TESTS=ON first" >&2
      exit 2
    }
    set -- "${2:-build/gpu-dry}"
  fi
  folder=${1:-build/gpu}
  logs=$folder/log
  [ $is_dry = yes ] || logs=build/gpu/log # a lent machine returns only few files
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

# Writes the report so far and all logs, each file at once. The background writer of a model calls this too.
save() {
  (
    flock 9
    ! command -v python3 >/dev/null || make_report >"$logs/report.log" 2>&1
    tar -cf "$folder/logs.tar.part" -C "$logs" . 2>/dev/null && mv -f "$folder/logs.tar.part" "$folder/logs.tar"
    # For visit 3 on the same machine.
    [ $is_dry = yes ] || cp "$folder/report.json" "build/gpu/former-${script// /-}.json" 2>/dev/null
  ) 9>"$logs.lock"
}
make_report() { python3 tests/gpu/check_report.py "$logs" "$folder" "$is_dry" "$script"; }

# advise WHAT WORDS…: adds a line to the report that says what to do about a part, or about the machine.
advise() {
  local what=$1
  shift
  say "$what: $*"
  printf '%s\t%s\n' "$what" "$*" >>"$advice"
}

# wanted NAME: succeeds if CHECK_ONLY is empty or has the name, or the part of it before the first "_".
wanted() {
  [ -z "${CHECK_ONLY:-}" ] || [[ ",$CHECK_ONLY," == *",$1,"* || ",$CHECK_ONLY," == *",${1%%_*},"* ]]
}
# any_wanted PREFIX: likewise for any part whose name begins with it.
any_wanted() { wanted "$1" || [[ ",$CHECK_ONLY," == *",$1"* ]]; }

# skip NAME WHY…: reports a part that cannot run here.
skip() {
  local name=$1
  shift
  wanted "$name" || return 0
  printf '%s\tnot here\t0\n' "$name" >>"$parts"
  advise "$name" "$*"
}

# watched FILE CMD…: runs a command. On SIGTERM cuda-gdb first writes to FILE where the kernels stand (30 s).
watched() {
  local words=$1 child
  shift
  set -m # gives the command its own process group, for what it starts
  "$@" &
  child=$!
  trap 'timeout -k 5 25 cuda-gdb -batch -p $child -ex "info cuda kernels" -ex "thread apply all bt" >"$words" 2>&1
    kill -KILL -- -$child' TERM
  wait "$child"
}
export -f watched

# limited NAME SECONDS CMD…: runs a command for at most so many seconds, with its output in a log.
limited() {
  local name=$1 limit=$2
  shift 2
  if command -v cuda-gdb >/dev/null; then
    timeout --foreground -k 45 "$limit" bash -c 'watched "$@"' _ "$logs/$name.hang.txt" "$@"
  else
    timeout -k 5 "$limit" "$@"
  fi >"$logs/$name.txt" 2>&1
}

# part NAME LIMIT CMD…: runs a part and reports its state, with what to do if it failed.
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
      137) state="out of time" # or killed earlier, for memory
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

# advise_state NAME STATE: reports what to do about a part, by the first reason that its log shows.
advise_state() {
  local name=$1 state=$2 log=$logs/$1.txt
  says() { grep -Eqs "$1" "$log"; }
  case $state in
    ok) ;;
    "not here") advise "$name" "$(tail -n 1 "$log")" ;;
    "out of time") advise "$name" "it hangs or is slow: see the end of $name.txt, and $name.hang.txt (with cuda-gdb);" \
      "then run it alone with CHECK_ONLY=$name, and with --no-early and --no-graphs" ;;
    "failed (killed)") advise "$name" "killed before its time limit, most likely for memory: see the free memory in the" \
      "first lines, and run it alone with CHECK_ONLY=$name" ;;
    *) if says 'has compute capability'; then
        advise "$name" "the device is too old: sm_80 or later is needed"
      elif says 'no kernel image|invalid device function'; then
        advise "$name" "this build has no code for the device: remove build/gpu, or set CHECK_ARCH"
      elif says 'illegal memory access|misaligned address|illegal instruction'; then
        advise "$name" "it touched memory that it may not: memcheck_of_$name.txt names the place (with compute-sanitizer)"
      elif says 'ABOVE ITS BOUND'; then
        advise "$name" "if slightly above, derive the bound again; if far off and always the same, find the smallest" \
          "failing case; if it changes from run to run, try --no-early, --no-graphs, then racecheck"
      elif says 'No space left|cannot be written'; then
        advise "$name" "the disk is full: set TMPDIR to a place with more room"
      elif says 'no memory|out of memory|not fit memory'; then
        advise "$name" "the device or the machine has too little memory: the log says for what"
      else
        advise "$name" "see the end of $name.txt in logs.tar"
      fi ;;
  esac
}

# Writes the whole report at the script's end.
report() {
  if [ -n "${CHECK_ONLY:-}" ] && ! awk '$1 != "build" { found = 1 } END { exit !found }' "$parts"; then
    advise CHECK_ONLY "no part has one of these names: $CHECK_ONLY"
    failed=1
  fi
  save
  if command -v python3 >/dev/null; then
    make_report || failed=1
  else
    say "there is no python3, so no table; figures are in $figures"
  fi
}

# Describes the machine, for the report's first lines. Each command may be missing or silent.
facts() {
  local commit=${CHECK_COMMIT:-}
  [ -n "$commit" ] || commit=$(git rev-parse --short HEAD 2>/dev/null) || commit=$(cat COMMIT 2>/dev/null)
  echo "commit: ${commit:-unknown: set CHECK_COMMIT}"
  echo "driver: $(timeout 20 nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,power.limit \
    --format=csv,noheader 2>&1 | head -8 | paste -sd ';')"
  echo "nvcc: $(nvcc --version 2>&1 | sed -n '/release/p' | head -1)"
  echo "cublasLt: $(sed -n 's/^BANYAN_CUBLAS_HEADER:[A-Z]*=//p' "$bin/CMakeCache.txt" 2>/dev/null)"
  echo "processor: $(lscpu 2>/dev/null | sed -n 's/^Model name: *//p' | head -1), $(nproc) processors"
  echo "memory: $(free -m 2>/dev/null | awk 'NR == 2 { print $2 " MiB, " $7 " free" }')"
  echo "disk: $(df -Pm . /dev/shm "${TMPDIR:-/tmp}" 2>/dev/null | awk 'NR > 1 { print $6 " " $4 " MiB free" }' | paste -sd ';')"
}

# Chooses the architectures to build for: those that nvidia-smi shows, if they are supported.
kinds_of_device() {
  local all kinds
  all=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]$')
  kinds=$(awk -F. '$1 >= 8 { print $1 $2 "-real" }' <<<"$all" | sort -u | paste -sd ';')
  if [ -z "$all" ]; then
    advise machine "nvidia-smi is missing or shows nothing: built for sm_90, unless CHECK_ARCH (80-real or the like)" \
      "names another architecture"
  elif [ -z "$kinds" ]; then
    advise machine "its devices are too old (compute capability $(paste -sd ' ' <<<"$all")): sm_80 or later is needed"
  fi
  kinds=${CHECK_ARCH:-${kinds:-90-real}}
  generator+=("-DBANYAN_CUDA_ARCHITECTURES=$kinds")
}

# Builds for this machine's own architectures only, which takes a third of the time.
build() {
  local generator=()
  say "build"
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin # has compute-sanitizer even where nvcc is elsewhere
  # Containers have the driver's library there.
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
  [ -f build/gpu/CMakeCache.txt ] || { command -v ninja >/dev/null && generator=(-G Ninja); } # else it keeps its own
  kinds_of_device
  if ! { cmake -S . -B build/gpu "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DBANYAN_CUDA=ON \
    -DBANYAN_GATEWAY=OFF -DBANYAN_TESTS=OFF -DBANYAN_WERROR=OFF && timeout 240 cmake --build build/gpu -j "$(nproc)"; } \
    >"$logs/build.txt" 2>&1; then
    tail -n 40 "$logs/build.txt"
    printf 'build\tfailed\t%d\n' "$SECONDS" >>"$parts"
    facts >"$logs/machine.txt"
    advise build "see the end of build.txt. nvcc must be on PATH, or in /usr/local/cuda/bin. If that does not help," \
      "build elsewhere and carry the programs of build/gpu, stripped"
    save
    say "the build failed: see $logs/build.txt"
    exit 2
  fi
  printf 'build\tok\t%d\n' "$SECONDS" >>"$parts"
}

# Builds unless this is a dry run, and describes the machine.
open_machine() {
  [ $is_dry = yes ] || build
  timeout 30 "$banyan" version >"$logs/version.txt" 2>&1
  facts >"$logs/machine.txt"
  timeout 30 nvidia-smi -q >"$logs/nvidia-smi.txt" 2>&1
  cat "$logs/machine.txt"
  save
}

# no_device NAME: succeeds if that part found no device, and reports what to do about it.
no_device() {
  local log=$logs/$1.txt
  grep -qs '^no CUDA device' "$log" || return 1
  if grep -qs insufficient "$log"; then
    advise machine "the driver is older than the toolkit, or its library is not found: install a driver of the" \
      "toolkit's version, with the folder of its libcuda.so.1 in LD_LIBRARY_PATH"
  elif command -v nvidia-smi >/dev/null; then
    advise machine "nvidia-smi is there but the driver shows no device: check CUDA_VISIBLE_DEVICES, and who may open" \
      "/dev/nvidia*"
  else
    advise machine "there is no device: it was built, and nothing was run"
  fi
  save
}

# find_place GB: makes a folder for models where there is room: in memory if possible.
find_place() {
  local place
  for place in /dev/shm "${TMPDIR:-/tmp}" build/gpu; do
    [ "$(df -Pk "$place" 2>/dev/null | awk 'NR == 2 { print $4 }')" -gt "$1"000000 ] 2>/dev/null || continue
    models=$(mktemp -d "$place/banyan.XXXXXX") && return
  done
  return 1
}

# write SHAPE TYPE [LAYERS]: the part that writes a model. Other parts need it, so it runs whatever CHECK_ONLY is.
write() {
  local name=$1-$2${3:+-$3}
  local CHECK_ONLY=
  [ -n "$models" ] || return
  part "write_${name//-/_}" 120 "$bin/gpu_shape" "$1" "$2" "$models/$name.gguf" ${3:+"$3"} && return
  rm -f "$models/$name.gguf" # it is incomplete
  advise "write_${name//-/_}" "the model was not written completely and is removed; parts that need it were not run"
  return 1
}
drop() { [ -z "$models" ] || rm -f "$models"/*; }

# bench SHAPE TYPE[_free|_int4|…] LIMIT OPTIONS…: measures steps of a whole model; its log is JSON.
bench() {
  local shape=$1 type=$2 limit=$3
  shift 3
  [ -f "$models/$shape-${type%%_*}.gguf" ] || return
  part "bench_${shape}_$type" "$limit" "$banyan" bench --model "$models/$shape-${type%%_*}.gguf" --json "$@"
  case $? in # running out of time or of memory is no failure; anything else is, as an "illegal memory access"
    0 | 124 | 137) ;;
    *) grep -Eq 'no memory|out of memory|not fit memory' "$logs/bench_${shape}_$type.txt" || failed=1 ;;
  esac
}

# sanitize TOOL LIMIT OPTIONS…: runs gpu_parity under compute-sanitizer, last, since it slows every access many times
# over. Anything it finds fails the check, even if it does not end. A device may refuse it.
sanitize() {
  local name=sanitizer_$1
  if ! command -v compute-sanitizer >/dev/null; then
    skip "$name" "there is no compute-sanitizer: it is in the toolkit's bin, which must be on PATH"
    return
  fi
  part "$name" "$2" compute-sanitizer --tool "$1" "${@:3}" --error-exitcode 9 "$bin/gpu_parity"
  if [ $? = 9 ] || grep -Eqs '^=+ .*(Invalid __|Misaligned|Race reported|hazard detected)' "$logs/$name.txt"; then
    printf '%s_found\tfailed (9)\t0\n' "$name" >>"$parts"
    failed=1
  fi
  ! grep -qs 'Device not supported' "$logs/$name.txt" ||
    advise "$name" "compute-sanitizer refuses the device of this machine; nothing else depends on it"
}
