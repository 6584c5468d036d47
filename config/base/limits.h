/* limits: every bound of the server that is not an option, in one place, with its reason.
 *
 * Owns:     numbers.
 * Not here: what an operator may set (options.def).
 */
#pragma once

/* --- HTTP, from clients --- */
#define LIMIT_HEAD_BYTES           (16 * 1024) /* request line and headers; h2o's own is 417,792 */
#define LIMIT_BODY_BYTES           (4 * 1024 * 1024) /* a chat of 8k tokens needs far less */
#define LIMIT_ADMIN_BODY_BYTES     (256 * 1024)
#define LIMIT_PATH_BYTES           1024
#define LIMIT_CORS_ORIGINS         64 /* each request that names an origin is compared with all */
#define LIMIT_CONNECTIONS          65536       /* what a machine allows ends first */
#define LIMIT_STREAM_PENDING_BYTES (16 * 1024) /* unsent bytes of one answer before reads pause */
#define LIMIT_PIPELINED_BYTES      (64 * 1024) /* read ahead while a request runs, then no more */
#define LIMIT_ARRIVAL_MS           30000       /* head and body of a request, and idle keep-alive */
#define LIMIT_UNREAD_MS            60000 /* for a client to take the next 64 KiB of an answer */
#define LIMIT_JSON_DEPTH           32
#define LIMIT_JSON_ELEMENTS        131072 /* eight prompts of 16k token ids; 10 MiB as a tree */
#define LIMIT_JSON_MEMBERS         64 /* of the top object: twice the fields of the OpenAI schema */
#define LIMIT_ENGINE_FRAME_BYTES   (4 * 1024 * 1024)  /* an echoed prompt with 20 logprobs */
#define LIMIT_ASSEMBLED_BYTES      (16 * 1024 * 1024) /* an answer that is not streamed */
#define LIMIT_ANSWER_SHARE_BYTES   (32 * 1024)  /* of a running answer: held over a used up share */
#define LIMIT_MEMORY_REQUEST_BYTES (8 * 1024)   /* a request beside body and answer: 4 to 8 KiB */
#define LIMIT_MEMORY_FLOOR_BYTES   (256 * 1024) /* of a tenant, from the reserve: small requests */
#define LIMIT_UPSTREAM_IDLE        128          /* connections kept; a new one costs 20 µs */
#define LIMIT_RELAYED_BYTES        (32 * 1024 * 1024) /* 4 MiB of text, 7 bytes a token */

/* --- banyan admin --- */
#define LIMIT_HTTPS_ANSWER_BYTES (16 * 1024 * 1024) /* four times the config API's longest */
#define LIMIT_CLI_TABLE_BYTES    (64 * 1024 * 1024) /* 100,000 tenants with the longest names */

/* --- the door: connections of one face --- */
#define LIMIT_HANDSHAKE_MS           10000
#define LIMIT_HANDSHAKES             1024 /* under way, 20 KiB each; then the oldest ends */
#define LIMIT_STREAMS_JUDGED         100  /* h2 streams before a connection's resets are judged */
#define LIMIT_STREAMS_JUDGED_TRUSTED 500  /* the same once as many as above ended well */
#define LIMIT_UNSENT_BYTES           (512 * 1024) /* frames of one h2 connection; data < 100 KiB */
#define LIMIT_KERNEL_UNSENT_BYTES    (16 * 1024)  /* of a socket, beyond what is under way */
/* What the kernel takes in of a socket that is not read yet: one read brings not much more. Known
 * owners get what the system gives, so that a far one's upload is not slowed down by its window. */
#define LIMIT_KERNEL_UNREAD_BYTES       (64 * 1024)
#define LIMIT_KERNEL_UNREAD_KNOWN_BYTES (1024 * 1024)
#define LIMIT_HEAD_BLOCK_BYTES          (64 * 1024) /* h2, coded: coarse coders take four times */
#define LIMIT_LINGER_MS                 5000        /* for the rest of a body that is dropped */
/* Memory of requests that are not whole, of a listener that is told nothing else. */
#define LIMIT_UNFINISHED_BYTES       (256 * 1024 * 1024)
#define LIMIT_ADMIN_UNFINISHED_BYTES (16 * 1024 * 1024) /* strangers', on the admin face */
#define LIMIT_ADMIN_KNOWN_BYTES      (40 * 1024 * 1024) /* two of the longest imports and more */
/* Of memory_limit: what unfinished requests may hold, of strangers and of known owners. A stranger
 * has no reason to send much, and half of it is one address's at most. */
#define LIMIT_UNFINISHED_PART 8
#define LIMIT_KNOWN_PART      4

/* --- requests --- */
#define LIMIT_MESSAGES           1024
#define LIMIT_STOP_STRINGS       4 /* as the OpenAI schema says */
#define LIMIT_STOP_BYTES         256
#define LIMIT_CHOICES            8  /* n: choices of one prompt */
#define LIMIT_ANSWERS            32 /* n × prompts of one request: clients send lists of 20 */
#define LIMIT_LOGPROBS           20 /* top_logprobs, as the OpenAI schema says */
#define LIMIT_LOGIT_BIAS         300
#define LIMIT_REQUESTS_IN_ENGINE 1024 /* inbox and running together */
#define LIMIT_REQUEST_BYTES_IN_ENGINE                                                              \
    (256u << 20)                      /* texts and prompts of all of them: 64 of the
                                                    * largest body, or all with 256 KiB */
#define LIMIT_BODIES_SCANNED     4096 /* that wait for their check; memory shares end it before */
#define LIMIT_SMALL_BODY_BYTES   (64 * 1024) /* parsed in under 1 ms; larger ones stand apart */
#define LIMIT_UNDELIVERED_TOKENS 64          /* then the sequence is throttled */
#define LIMIT_ENGINE_SEND_BYTES  8192 /* of a stream, in the socket: some 20 tokens before those */
#define LIMIT_REQUEST_ID_BYTES   64
#define LIMIT_FINAL_RECORDS      131072 /* kept until acknowledged: the longest outage of an edge */

/* --- sharing the engine --- */
#define LIMIT_TENANT_REQUESTS_IN_ENGINE 256 /* of one tenant: three leave room for more */
#define LIMIT_TEXTS_WAITING             LIMIT_REQUESTS_IN_ENGINE /* to be parsed or tokenised */
#define LIMIT_TENANT_TEXTS_WAITING      LIMIT_TENANT_REQUESTS_IN_ENGINE /* of one tenant */
#define LIMIT_ENGINES                   16  /* of one process: devices of one machine */
#define LIMIT_FILL_STEPS                256 /* to wait for another's prompt: 8k tokens by 32 rows */

/* --- names and keys --- */
#define LIMIT_NAME_BYTES           128
#define LIMIT_ID_BYTES             40
#define LIMIT_KEY_BYTES            128 /* an API key as sent */
#define LIMIT_SECRETS_BYTES        512 /* a file of two secrets in hex, or of one key */
#define LIMIT_TENANTS              100000
#define LIMIT_KEYS                 1000000
#define LIMIT_GROUPS               LIMIT_TENANTS /* each may name one of its own */
#define LIMIT_GROUP_MEMBERS        1000          /* that are listed with a group; all are counted */
#define LIMIT_METADATA_PAIRS       16 /* as OpenAI's metadata: pairs, bytes of a key, of a value */
#define LIMIT_METADATA_KEY_BYTES   64
#define LIMIT_METADATA_VALUE_BYTES 512
#define LIMIT_METADATA_BYTES       (64 * 1024) /* as JSON: each byte written as six at most */
#define LIMIT_WEIGHT               1000
#define LIMIT_CACHE_SHARE          1000
#define LIMIT_TENANT_MODELS        16
#define LIMIT_TENANT_MODELS_BYTES  512 /* of all their names, each with its end */

/* --- quotas --- */
#define LIMIT_QUOTA_RATE           1000000000       /* a minute; times 60,000,000 it fits 63 bits */
#define LIMIT_QUOTA_BUDGET         1000000000000000 /* tokens a month */
#define LIMIT_QUOTA_OUTPUT         256    /* reserved for an answer until a tenant has history */
#define LIMIT_QUOTA_EXTENSION      64     /* more reserved at once while a stream runs */
#define LIMIT_QUOTA_AHEAD          8      /* tokens before the end of a lease it is extended */
#define LIMIT_QUOTA_LEASE_GRACE_MS 60000  /* after its request's deadline a lease is nobody's */
#define LIMIT_LEDGER_MINUTE_ROWS   262144 /* of a start: 4,000 requests a second, 0.1 s */
#define LIMIT_PLANS                256
#define LIMIT_PRICES               1024       /* with those of the past: 0.4 MB */
#define LIMIT_PRICE_NANO           1000000000 /* of a token: 2^32 tokens each way fit 64 bits */

/* --- tokens of issuers (JWT) --- */
#define LIMIT_JWT_BYTES      8192    /* half of a request's head; the guard copies no more */
#define LIMIT_JWT_KID_BYTES  128     /* a key's name: a hash in hex or base64, an ARN's last part */
#define LIMIT_JWT_SKEW_S     60      /* between an issuer's clock and ours */
#define LIMIT_JWT_LIFETIME_S 2592000 /* the most that an issuer's tokens may be allowed: 30 days */
#define LIMIT_SUBJECT_BYTES  64      /* of a token's "sub" that the audit keeps; 43 are long ones */
#define LIMIT_ISSUERS        64
#define LIMIT_ISSUER_KEYS    16          /* two of each algorithm, and a rotation of all of them */
#define LIMIT_ISSUER_NAMES   16          /* audiences of one issuer */
#define LIMIT_ISSUER_BYTES   256         /* the text of "iss" and of "aud": a URL */
#define LIMIT_JWKS_BYTES     (64 * 1024) /* sixteen keys with certificates */
#define LIMIT_JWKS_URL_BYTES 256         /* of a key set's URL, as LIMIT_ISSUER_BYTES */
#define LIMIT_JWKS_FETCH_MS  10000       /* from connecting to the last byte of a key set */
#define LIMIT_JWKS_ASK_S     60     /* a token's unknown key has the set fetched at most so often */
#define LIMIT_JWKS_AGAIN_S   30     /* behind a fetch that failed; sooner when refreshes are */
#define LIMIT_JWKS_REFRESH_S 86400  /* between two fetches at most */
#define LIMIT_JWKS_OVERLAP_S 604800 /* a key that has left its set is taken for so long at most */
#define LIMIT_TOKENS_PARKED  32     /* that wait for a fetch: half of those that may wait at all */
#define LIMIT_RSA_BITS       4096   /* a longer one costs more to check than it protects */
#define LIMIT_TOKENS         100000 /* that were found good and are kept: 14 MiB at most */
#define LIMIT_TOKENS_BAD     8192   /* that were found bad and are remembered */
#define LIMIT_TOKEN_S        300    /* kept for so long, then checked again */
#define LIMIT_TOKEN_BAD_S    10
#define LIMIT_TOKEN_CHECKS   64 /* that wait for the one thread that checks: some 25 ms of work */
#define LIMIT_TOKEN_FAILURES 20 /* bad tokens of an address at once; then ten a second */

/* --- certificates of clients --- */
#define LIMIT_CERTIFICATES       100000 /* rows: one for each tenant */
#define LIMIT_PEER_NAMES         16     /* of one: a workload's URI, a machine's few names */
#define LIMIT_PEER_NAME_BYTES    256 /* a SPIFFE id may have 2,048, in use are some 100; DNS: 253 */
#define LIMIT_CLIENT_CHAIN       3   /* between a certificate and its root; one or two in use */
#define LIMIT_CLIENT_SHOWN       8   /* certificates of a handshake, needed or not */
#define LIMIT_CLIENT_CHAIN_BYTES (32 * 1024) /* of a handshake; OpenSSL's own is 100 KiB */

/* --- config API --- */
#define LIMIT_OVERLAP_S             604800       /* both keys of a rotation work: a week at most */
#define LIMIT_TIME_S                253402300799 /* the end of year 9999: a date that was meant */
#define LIMIT_IDEMPOTENCY_KEY_BYTES 255
#define LIMIT_IDEMPOTENCY_S         86400              /* an answer is kept for a day */
#define LIMIT_ADMIN_IMPORT_BYTES    (16 * 1024 * 1024) /* 30,000 tenants */
#define LIMIT_ADMIN_IMPORT_ELEMENTS (1024 * 1024)      /* twice what they have; 0.1 GB as a tree */
#define LIMIT_ADMIN_ANSWER_BYTES    (8 * 1024 * 1024)  /* 100 tenants with all metadata */
#define LIMIT_ADMIN_CALLS           64  /* that wait for the one thread that makes changes */
#define LIMIT_ADMIN_FAILURES        10  /* wrong keys of an address at once; then one a second */
#define LIMIT_REVISIONS             8   /* entity tags of one If-Match */
#define LIMIT_USED_S                60  /* last use of a key: written once in so long a time */
#define LIMIT_USED_BATCH            512 /* keys of one commit: other changes wait 2 ms for it */

/* --- ledger --- */
#define LIMIT_LEDGER_QUEUE 16384 /* rows between two commits: two for each connection */
/* Request ids known as written: twice what an engine may replay (LIMIT_FINAL_RECORDS), since rows
 * that have no record come between. */
#define LIMIT_LEDGER_RECENT    262144
#define LIMIT_ROWS_AWAITED     1024 /* rows of cut streams without their record: all of an engine */
#define LIMIT_LEDGER_BATCH     1024 /* rows of one commit: about 2 ms */
#define LIMIT_LEDGER_BEHIND_MS 250  /* then new requests are refused */

/* --- Redis --- */
#define LIMIT_REDIS_DATABASES      16384 /* far above what any Redis is set to */
#define LIMIT_REDIS_CONNECT_MS     1000
#define LIMIT_REDIS_COMMAND_MS     2000 /* four times the slowest network that is still of use */
#define LIMIT_REDIS_CLOSE_MS       2000 /* for rows that wait when the server ends */
#define LIMIT_REDIS_REPLY_BYTES    (128 * 1024) /* not yet read whole; INFO has about 6 KiB */
#define LIMIT_REDIS_PASSWORD_BYTES 512
#define LIMIT_REDIS_ARGUMENTS      2048 /* of one command: 256 rows, or 330 sums of a day */
#define LIMIT_REDIS_BATCH          256  /* rows of one round trip: some 100 KiB */
#define LIMIT_REDIS_WAITING        256  /* days that Redis refuses; more: all are compared */

/* --- questions about usage --- */
#define LIMIT_USAGE_BUCKETS      1440     /* a day of minutes, as OpenAI's usage API allows */
#define LIMIT_USAGE_ROWS         4096     /* results of one page: 1.1 MB */
#define LIMIT_USAGE_STEPS        40000000 /* of SQLite's machine: about half a second */
#define LIMIT_USAGE_WORDS        16       /* of a list that a question is limited to */
#define LIMIT_USAGE_REQUESTS     1000     /* single rows of one page: 0.5 MB */
#define LIMIT_USAGE_SCAN         100000   /* rows that are looked at for it: about 0.1 s */
#define LIMIT_USAGE_TASKS        64       /* that wait for the reader */
#define LIMIT_USAGE_TASKS_TENANT 4        /* of one tenant among them */
#define LIMIT_USAGE_CALLS_TENANT 16       /* the same, and answers that its clients have not read */

/* --- model files --- */
#define LIMIT_GGUF_KEYS             65536
#define LIMIT_GGUF_TENSORS          65536
#define LIMIT_GGUF_NAME_BYTES       256
#define LIMIT_GGUF_STRING_BYTES     (16 * 1024 * 1024)
#define LIMIT_GGUF_ARRAY_ELEMENTS   (4 * 1024 * 1024)
#define LIMIT_VOCAB                 1048576
#define LIMIT_TOKEN_BYTES           1024 /* the bytes of one token */
#define LIMIT_LAYERS                1024
#define LIMIT_CONTEXT               1048576
#define LIMIT_TEMPLATE_BYTES        65536
#define LIMIT_TEMPLATE_STEPS        1000000
#define LIMIT_TEMPLATE_OUTPUT_BYTES (8 * 1024 * 1024)
#define LIMIT_TEMPLATE_NODES        16384 /* instructions; one is at least a byte of template */
#define LIMIT_TEMPLATE_DEPTH        32    /* statements, and operators of one expression */
#define LIMIT_TEMPLATE_NAMES        64    /* variables; a render keeps their values for each loop */
#define LIMIT_TEMPLATE_NUMBER_BYTES 65536 /* digits of numbers joined to strings in one render */

/* --- a model's shape: products of these stay far below 2^63 --- */
#define LIMIT_WIDTH       65536
#define LIMIT_HIDDEN      1048576
#define LIMIT_HEADS       1024
#define LIMIT_HEAD_DIM    512 /* the attention leaves' scratch is sized by it */
#define LIMIT_WEIGHT_COLS LIMIT_HIDDEN
#define LIMIT_WEIGHT_ROWS LIMIT_VOCAB /* the output layer is the tallest matrix */
#define LIMIT_PAGE_TOKENS 1024
#define LIMIT_BATCH_ROWS  65536 /* rows of one step; scratch grows with it */

/* --- a device's graphs of launches: of some 500 kernels each, 2 to 5 KiB of device memory a kernel
 * by what others report; counted as they are made, beside what the pools take at start --- */
#define LIMIT_CUDA_GRAPHS      64                  /* ten buckets of rows, and some of parts each */
#define LIMIT_CUDA_GRAPH_BYTES (256 * 1024 * 1024) /* then the least recently used go */

/* --- visibility --- */
#define LIMIT_DOMAINS_VISIBLE 64
#define LIMIT_PROMPTS_VISIBLE (LIMIT_DOMAINS_VISIBLE - 2) /* beside the group's and the own */
#define LIMIT_GRANTS          16384 /* of published prompts, each to a tenant or a group */
#define LIMIT_PROMPTS         256   /* published at the same time; a tenant sees far fewer */
#define LIMIT_PROMPT_GRANTS   256   /* tenants and groups of one; more tenants share a group */
#define LIMIT_REST_CANDIDATES 32    /* nodes of a domain compared behind a match: microseconds */

/* --- machine --- */
#define LIMIT_THREADS           256
#define LIMIT_RANKS             8     /* of one model: the devices, or sockets, of a machine */
#define LIMIT_RANK_WAIT_MS      30000 /* equal shares meet within 1 s, ten ranks a processor */
#define LIMIT_OPTION_BYTES      1024  /* a text option: a path at most */
#define LIMIT_CONFIG_FILE_BYTES (256 * 1024) /* every option twenty times over */
#define LIMIT_METRIC_SERIES     4096
#define LIMIT_LOG_LINE_BYTES    4096         /* one write() of this size is not torn by a pipe */
#define LIMIT_LOG_RING_BYTES    (512 * 1024) /* lines of 50 ms at 25,000 requests a second */
