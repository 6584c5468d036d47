/* limits: every bound of the server that is not an option, in one place, with its reason.
 *
 * Owns:     numbers. A comment says what a number bounds where its name does not, and why it is so.
 * Not here: what an operator may set (options.def).
 */
#pragma once

/* --- HTTP, from clients --- */
/* request line and headers; h2o's default is 417,792 */
#define LIMIT_HEAD_BYTES       (16 * 1024)
#define LIMIT_BODY_BYTES       (4 * 1024 * 1024) /* a chat of 8k tokens needs far less */
#define LIMIT_ADMIN_BODY_BYTES (256 * 1024)
#define LIMIT_PATH_BYTES       1024
#define LIMIT_CORS_ORIGINS     64    /* each request that names an origin is compared with all */
#define LIMIT_CONNECTIONS      65536 /* the kernel's own limits are usually lower */
/* unsent bytes of one answer, before the edge stops reading it from the engine */
#define LIMIT_STREAM_PENDING_BYTES (16 * 1024)
/* read ahead while a request runs; then reading stops */
#define LIMIT_PIPELINED_BYTES (64 * 1024)
/* for head and body of a request to arrive, and for an idle connection */
#define LIMIT_ARRIVAL_MS         30000
#define LIMIT_UNREAD_MS          60000 /* for a client to take the next 64 KiB of an answer */
#define LIMIT_JSON_DEPTH         32
#define LIMIT_JSON_ELEMENTS      131072 /* eight prompts of 16k token ids; 10 MiB as a tree */
#define LIMIT_JSON_MEMBERS       64 /* of the top object: twice the fields of the OpenAI schema */
#define LIMIT_ENGINE_FRAME_BYTES (4 * 1024 * 1024)  /* an echoed prompt with 20 logprobs */
#define LIMIT_ASSEMBLED_BYTES    (16 * 1024 * 1024) /* an answer that is not streamed */
/* of a running answer: allowed although the tenant's share is used up */
#define LIMIT_ANSWER_SHARE_BYTES (32 * 1024)
/* a request without its body and answer: 4 to 8 KiB */
#define LIMIT_MEMORY_REQUEST_BYTES (8 * 1024)
/* of a tenant, from the reserve, so that small requests always pass */
#define LIMIT_MEMORY_FLOOR_BYTES (256 * 1024)
#define LIMIT_UPSTREAM_IDLE      128 /* idle connections kept; a new one costs 20 µs */
#define LIMIT_RELAYED_BYTES      (32 * 1024 * 1024) /* 4 MiB of text, 7 bytes a token */

/* --- banyan admin --- */
/* four times the longest answer of the config API */
#define LIMIT_HTTPS_ANSWER_BYTES (16 * 1024 * 1024)
#define LIMIT_CLI_TABLE_BYTES    (64 * 1024 * 1024) /* 100,000 tenants with the longest names */

/* --- connections of one listener --- */
#define LIMIT_HANDSHAKE_MS 10000
/* in progress, 20 KiB each; beyond it the oldest is ended */
#define LIMIT_HANDSHAKES 1024
/* HTTP/2 streams before a connection's resets are judged */
#define LIMIT_STREAMS_JUDGED 100
/* the same once LIMIT_STREAMS_JUDGED streams have ended well */
#define LIMIT_STREAMS_JUDGED_TRUSTED 500
/* frames of one HTTP/2 connection; its data are < 100 KiB */
#define LIMIT_UNSENT_BYTES        (512 * 1024)
#define LIMIT_KERNEL_UNSENT_BYTES (16 * 1024) /* of a socket, beyond the bytes in flight */
/* Receive buffer of a socket in the kernel: one read returns little more. A connection with an
 * authenticated request gets what the system allows, so that its window does not slow down an
 * upload from far away. */
#define LIMIT_KERNEL_UNREAD_BYTES       (64 * 1024)
#define LIMIT_KERNEL_UNREAD_KNOWN_BYTES (1024 * 1024)
/* HTTP/2, encoded; a poor encoder takes four times the size */
#define LIMIT_HEAD_BLOCK_BYTES (64 * 1024)
/* for the client to send the remainder of a dropped body */
#define LIMIT_LINGER_MS 5000
/* While others find no room, an upload has this long, and a second for each so many bytes. */
#define LIMIT_UPLOAD_PATIENCE_MS 1000
#define LIMIT_UPLOAD_BYTES_S     (1024 * 1024)
/* Memory of incomplete requests of a listener, unless the listener is told another number. */
#define LIMIT_UNFINISHED_BYTES (256 * 1024 * 1024)
/* of unauthenticated clients, on the admin listener */
#define LIMIT_ADMIN_UNFINISHED_BYTES (16 * 1024 * 1024)
/* two of the longest imports and some more */
#define LIMIT_ADMIN_KNOWN_BYTES (40 * 1024 * 1024)
/* Requests that wait for their pace and are booked to no tenant, because they are refused or have
 * none. Further ones are answered at once. Each holds at most 8 KiB. */
#define LIMIT_PACED_UNBOOKED 4096
/* Parts of memory_limit that incomplete requests may hold: of unauthenticated clients, and of
 * authenticated owners. A client that is not authenticated has no reason to send much, and one
 * address may use at most half of their part. */
#define LIMIT_UNFINISHED_PART 8
#define LIMIT_KNOWN_PART      4

/* --- requests --- */
#define LIMIT_MESSAGES     1024
#define LIMIT_STOP_STRINGS 4 /* as in the OpenAI schema */
#define LIMIT_STOP_BYTES   256
#define LIMIT_CHOICES      8 /* `n`, the choices of one prompt */
/* `n` times the prompts of one request; clients send lists of 20 */
#define LIMIT_ANSWERS            32
#define LIMIT_LOGPROBS           20 /* `top_logprobs`, as in the OpenAI schema */
#define LIMIT_LOGIT_BIAS         300
#define LIMIT_REQUESTS_IN_ENGINE 1024 /* in the inbox and running, together */
/* texts and prompts of all requests: 64 of the largest body, or all requests with 256 KiB each */
#define LIMIT_REQUEST_BYTES_IN_ENGINE (256u << 20)
/* bodies that wait for their check; memory shares usually end it earlier */
#define LIMIT_BODIES_SCANNED 4096
/* parsed in under 1 ms; larger bodies are parsed on another thread */
#define LIMIT_SMALL_BODY_BYTES   (64 * 1024)
#define LIMIT_UNDELIVERED_TOKENS 64 /* beyond it the sequence is throttled */
/* of a stream, in the socket: some 20 tokens beside the undelivered ones */
#define LIMIT_ENGINE_SEND_BYTES 8192
#define LIMIT_REQUEST_ID_BYTES  64
/* kept until acknowledged: what the engine finishes while the edge is away */
#define LIMIT_FINAL_RECORDS 131072

/* --- sharing the engine --- */
#define LIMIT_TENANT_REQUESTS_IN_ENGINE 256 /* of one tenant: three tenants leave room for others */
#define LIMIT_TEXTS_WAITING             LIMIT_REQUESTS_IN_ENGINE /* to be parsed or tokenised */
#define LIMIT_TENANT_TEXTS_WAITING      LIMIT_TENANT_REQUESTS_IN_ENGINE /* of one tenant */
#define LIMIT_ENGINES                   16 /* of one process: the devices of one machine */
/* a request waits this long for another one to compute their common prefix: 8k tokens by 32 rows */
#define LIMIT_FILL_STEPS 256

/* --- names and keys --- */
#define LIMIT_NAME_BYTES    128
#define LIMIT_ID_BYTES      40
#define LIMIT_KEY_BYTES     128 /* an API key as sent */
#define LIMIT_SECRETS_BYTES 512 /* a file of two secrets in hex, or of one key */
#define LIMIT_TENANTS       100000
#define LIMIT_KEYS          1000000
#define LIMIT_GROUPS        LIMIT_TENANTS /* each tenant may name a group of its own */
#define LIMIT_GROUP_MEMBERS 1000          /* listed with a group; all are counted */
/* as OpenAI's metadata: pairs, bytes of a key, bytes of a value */
#define LIMIT_METADATA_PAIRS       16
#define LIMIT_METADATA_KEY_BYTES   64
#define LIMIT_METADATA_VALUE_BYTES 512
#define LIMIT_METADATA_BYTES       (64 * 1024) /* as JSON, where a byte becomes at most six */
#define LIMIT_WEIGHT               1000
#define LIMIT_CACHE_SHARE          1000
#define LIMIT_TENANT_MODELS        16
#define LIMIT_TENANT_MODELS_BYTES  512 /* of all their names, each with its end */

/* --- quotas --- */
#define LIMIT_QUOTA_RATE      1000000000       /* a minute; times 60,000,000 it fits 63 bits */
#define LIMIT_QUOTA_BUDGET    1000000000000000 /* a month: tokens, requests or nano-units */
#define LIMIT_QUOTA_OUTPUT    256 /* reserved for an answer while a tenant has no history */
#define LIMIT_QUOTA_EXTENSION 64  /* further tokens reserved at once while a stream runs */
#define LIMIT_QUOTA_AHEAD     8   /* tokens left in a reservation when it is extended */
/* after its request's deadline a reservation is given back */
#define LIMIT_QUOTA_LEASE_GRACE_MS 60000
#define LIMIT_LEDGER_MINUTE_ROWS   262144 /* read at a start: 4,000 requests a second, 0.1 s */
#define LIMIT_PLANS                256
#define LIMIT_PRICES               1024 /* past prices included: 0.4 MB */
/* of a token, so that 2^32 tokens each way fit 64 bits */
#define LIMIT_PRICE_NANO 1000000000

/* --- tokens of issuers (JWT) --- */
#define LIMIT_JWT_BYTES 8192 /* half of a request's head; the guard copies no more */
/* a key's name: a hash in hex or base64, the last part of an ARN */
#define LIMIT_JWT_KID_BYTES 128
#define LIMIT_JWT_SKEW_S    60 /* between an issuer's clock and ours */
/* the longest lifetime that an issuer's tokens may have: 30 days */
#define LIMIT_JWT_LIFETIME_S 2592000
#define LIMIT_SUBJECT_BYTES  64 /* of a token's "sub" that the audit keeps; long ones have 43 */
#define LIMIT_ISSUERS        64
#define LIMIT_ISSUER_KEYS    16          /* two of each algorithm, and a rotation of all of them */
#define LIMIT_ISSUER_NAMES   16          /* audiences of one issuer */
#define LIMIT_ISSUER_BYTES   256         /* the text of "iss" and of "aud": a URL */
#define LIMIT_JWKS_BYTES     (64 * 1024) /* sixteen keys with certificates */
#define LIMIT_JWKS_URL_BYTES 256         /* the URL of a key set, as LIMIT_ISSUER_BYTES */
#define LIMIT_JWKS_FETCH_MS  10000       /* from connecting to the last byte of a key set */
#define LIMIT_JWKS_ASK_S     60 /* between two fetches caused by tokens with an unknown key */
/* between a failed fetch and the next; sooner if the issuer's refresh is */
#define LIMIT_JWKS_AGAIN_S   30
#define LIMIT_JWKS_REFRESH_S 86400  /* longest time between two fetches */
#define LIMIT_JWKS_OVERLAP_S 604800 /* longest time that a key is accepted after it left its set */
#define LIMIT_TOKENS_PARKED  32   /* waiting for a fetch: half of the tokens that may wait at all */
#define LIMIT_RSA_BITS       4096 /* a longer key costs more to check than it protects */
#define LIMIT_TOKENS         100000 /* valid tokens that are remembered: 14 MiB at most */
#define LIMIT_TOKENS_BAD     8192   /* invalid tokens that are remembered */
#define LIMIT_TOKEN_S        300    /* after this time a remembered token is checked again */
#define LIMIT_TOKEN_BAD_S    10
#define LIMIT_TOKEN_CHECKS   64 /* waiting for the one thread that checks: some 25 ms of work */
#define LIMIT_TOKEN_FAILURES 20 /* bad tokens of an address at once; then ten a second */

/* --- certificates of clients --- */
#define LIMIT_CERTIFICATES 100000 /* rows: one for each tenant */
/* of one certificate: a workload's URI, a machine's few names */
#define LIMIT_PEER_NAMES 16
/* a SPIFFE id may have 2,048, real ones have some 100; DNS: 253 */
#define LIMIT_PEER_NAME_BYTES    256
#define LIMIT_CLIENT_CHAIN       3 /* between a certificate and its root; one or two are usual */
#define LIMIT_CLIENT_SHOWN       8 /* certificates in one handshake, needed or not */
#define LIMIT_CLIENT_CHAIN_BYTES (32 * 1024) /* of one handshake; OpenSSL's own limit is 100 KiB */

/* --- config API --- */
#define LIMIT_OVERLAP_S 604800 /* both keys of a rotation are valid: a week at most */
/* the end of year 9999; a later date is a mistake */
#define LIMIT_TIME_S                253402300799
#define LIMIT_IDEMPOTENCY_KEY_BYTES 255
#define LIMIT_IDEMPOTENCY_S         86400              /* an answer is kept for a day */
#define LIMIT_ADMIN_IMPORT_BYTES    (16 * 1024 * 1024) /* 30,000 tenants */
/* twice what 30,000 tenants have; 0.1 GB as a tree */
#define LIMIT_ADMIN_IMPORT_ELEMENTS (1024 * 1024)
#define LIMIT_ADMIN_ANSWER_BYTES    (8 * 1024 * 1024) /* 100 tenants with all metadata */
#define LIMIT_ADMIN_CALLS           64  /* waiting for the one thread that makes changes */
#define LIMIT_ADMIN_FAILURES        10  /* wrong keys of an address at once; then one a second */
#define LIMIT_REVISIONS             8   /* entity tags of one If-Match */
#define LIMIT_USED_S                60  /* between two writes of a key's last use */
#define LIMIT_USED_BATCH            512 /* keys of one commit: other changes wait 2 ms for it */

/* --- ledger --- */
#define LIMIT_LEDGER_QUEUE 16384 /* rows between two commits: two for each connection */
/* Request ids known as written: twice what an engine may replay (LIMIT_FINAL_RECORDS), because rows
 * without a record come in between. */
#define LIMIT_LEDGER_RECENT 262144
/* rows of cut streams that wait for their record: as many as an engine runs */
#define LIMIT_ROWS_AWAITED 1024
#define LIMIT_LEDGER_BATCH 1024 /* rows of one commit: about 2 ms */
/* rows wait this long for a commit; then new requests are refused */
#define LIMIT_LEDGER_BEHIND_MS 250

/* --- Redis --- */
#define LIMIT_REDIS_DATABASES  16384 /* far more than any Redis is configured with */
#define LIMIT_REDIS_CONNECT_MS 1000
#define LIMIT_REDIS_COMMAND_MS 2000 /* four times the slowest network that is of any use */
#define LIMIT_REDIS_CLOSE_MS   2000 /* for rows that wait when the server ends */
/* of a reply not yet read whole; INFO has about 6 KiB */
#define LIMIT_REDIS_REPLY_BYTES    (128 * 1024)
#define LIMIT_REDIS_PASSWORD_BYTES 512
#define LIMIT_REDIS_ARGUMENTS      2048 /* of one command: 256 rows, or 330 sums of a day */
#define LIMIT_REDIS_BATCH          256  /* rows of one round trip: some 100 KiB */
/* days that Redis refused; beyond it all days are compared */
#define LIMIT_REDIS_WAITING 256

/* --- questions about usage --- */
#define LIMIT_USAGE_BUCKETS      1440     /* a day of minutes, as in OpenAI's usage API */
#define LIMIT_USAGE_ROWS         4096     /* results of one page: 1.1 MB */
#define LIMIT_USAGE_STEPS        40000000 /* of SQLite's virtual machine: about half a second */
#define LIMIT_USAGE_WORDS        16       /* words of a list in a query */
#define LIMIT_USAGE_REQUESTS     1000     /* single rows of one page: 0.5 MB */
#define LIMIT_USAGE_SCAN         100000   /* rows read to find them: about 0.1 s */
#define LIMIT_USAGE_TASKS        64       /* waiting for the reader thread */
#define LIMIT_USAGE_TASKS_TENANT 4        /* of one tenant among them */
#define LIMIT_USAGE_CALLS_TENANT 16       /* of one tenant: waiting, or answered and not read yet */

/* --- model files --- */
#define LIMIT_GGUF_KEYS             65536
#define LIMIT_GGUF_TENSORS          65536
#define LIMIT_GGUF_NAME_BYTES       256
#define LIMIT_GGUF_STRING_BYTES     (16 * 1024 * 1024)
#define LIMIT_GGUF_ARRAY_ELEMENTS   (4 * 1024 * 1024)
#define LIMIT_VOCAB                 1048576
#define LIMIT_TOKEN_BYTES           1024
#define LIMIT_LAYERS                1024
#define LIMIT_CONTEXT               1048576
#define LIMIT_TEMPLATE_BYTES        65536
#define LIMIT_TEMPLATE_STEPS        1000000
#define LIMIT_TEMPLATE_OUTPUT_BYTES (8 * 1024 * 1024)
#define LIMIT_TEMPLATE_VALUE_BYTES  (64 * 1024 * 1024) /* of one render; JSON takes 4 of a byte */
#define LIMIT_TEMPLATE_VALUE_DEPTH  128                /* lists inside each other; sizes C stacks */
#define LIMIT_TEMPLATE_NODES        32768  /* instructions; each has at least a byte of template */
#define LIMIT_TEMPLATE_DEPTH        32     /* of statements, of brackets; arguments of one call */
#define LIMIT_TEMPLATE_NAMES        256    /* variables, and scopes; a long template has some 90 */
#define LIMIT_TEMPLATE_CALLS        64     /* macros inside each other, as over a tool's schema */
#define LIMIT_TEMPLATE_RANGE        100000 /* numbers of one range, as in jinja2's sandbox */

/* --- tokenizers --- */
/* Backtracks of one match of a pre-split, beside four for each byte that is left of the text: a
 * round of a group counts as one, and the patterns make at most two for a character. */
#define LIMIT_PRESPLIT_BACKTRACKS 1000
/* Ways to make a piece of two others: Gemma has half a million. */
#define LIMIT_SPM_MERGES (16 * 1024 * 1024)

/* --- a model's shape: products of these stay far below 2^63 --- */
#define LIMIT_WIDTH        65536
#define LIMIT_HIDDEN       1048576
#define LIMIT_HEADS        1024
#define LIMIT_HEAD_DIM     512 /* sizes the scratch of the attention leaves */
#define LIMIT_WEIGHT_COLS  LIMIT_HIDDEN
#define LIMIT_WEIGHT_ROWS  LIMIT_VOCAB /* the output layer is the tallest matrix */
#define LIMIT_EXPERTS      256 /* of a layer; the largest models that are supported have 128 */
#define LIMIT_EXPERTS_USED 16  /* by one row */
#define LIMIT_PAGE_TOKENS  1024
#define LIMIT_BATCH_ROWS   65536 /* rows of one step; scratch grows with it */

/* --- a device's graphs of launches ---
 * A graph has some 500 kernels, and a kernel takes 2 to 5 KiB of device memory by published
 * figures. The bytes are counted as graphs are made; they come on top of what the pools take at
 * start. */
#define LIMIT_CUDA_GRAPHS      64 /* ten buckets of rows, some of them in several parts */
#define LIMIT_CUDA_GRAPH_BYTES (256 * 1024 * 1024) /* beyond it the least recently used go */

/* --- visibility --- */
#define LIMIT_DOMAINS_VISIBLE 64
/* beside the group's domain and the tenant's own */
#define LIMIT_PROMPTS_VISIBLE (LIMIT_DOMAINS_VISIBLE - 2)
#define LIMIT_GRANTS          16384 /* of published prompts, each to a tenant or a group */
#define LIMIT_PROMPTS         256   /* published at the same time; a tenant sees far fewer */
/* tenants and groups of one prompt; many tenants form a group */
#define LIMIT_PROMPT_GRANTS 256
/* nodes of a domain compared for a partial match: microseconds */
#define LIMIT_PARTIAL_CANDIDATES 32

/* --- machine --- */
#define LIMIT_THREADS           256
#define LIMIT_RANKS             8     /* of one model: the devices, or sockets, of a machine */
#define LIMIT_RANK_WAIT_MS      30000 /* equal shares meet within 1 s, with ten ranks a processor */
#define LIMIT_OPTION_BYTES      1024  /* a text option: at most a path */
#define LIMIT_CONFIG_FILE_BYTES (256 * 1024) /* every option twenty times over */
#define LIMIT_METRIC_SERIES     4096
#define LIMIT_LOG_LINE_BYTES    4096         /* a pipe does not split one write() of this size */
#define LIMIT_LOG_RING_BYTES    (512 * 1024) /* lines of 50 ms at 25,000 requests a second */
