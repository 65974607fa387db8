/* The rows of native requests and answers about catalogues and skills. Read as those of native/args.c. Invariant: names and
 * meanings here are the published contract; add, do not rename. */
#include "base/limits.h"
#include "front/native/args.h"
#include "front/native/rows.h"
#include "front/native/skill.h"
#include "rows/write.h"

/* ---- catalogues ---- */

const struct row catalog_query[] = {
    {ROW("format", TEXT, catalog_args, format), .choices = "json|prompt",
     .text = "prompt: text/plain, escaped, empty when there is nothing"},
    END,
};
#define CATALOG_ROWS                                                                                                   \
    OUT("id", TEXT, catalog_entry, id,                                                                                 \
        "of its folder, or of its file without .md: what paths and other calls name it by"),                           \
        OUT("name", TEXT, catalog_entry, meta.name, "what it calls itself"),                                           \
        OUT("description", TEXT, catalog_entry, meta.description, "what it is for"),                                   \
        OUT("path", TEXT, catalog_entry, path, "its folder, or file, in the box"),                                     \
        OUT_NULL("file", TEXT, catalog_entry, file, "the file that says all this; null: there is none"),               \
        {ROW("source", TEXT, catalog_entry, source), .choices = "personal|agent|global", .text = "whose it is"},       \
        OUT_NULL("author", TEXT, catalog_entry, meta.author, "as it says"),                                            \
        OUT_NULL("version", TEXT, catalog_entry, meta.version, "as it says"),                                          \
        OUT_NULL("license", TEXT, catalog_entry, meta.license, "as it says"),                                          \
        OUT_NULL("sharing", TEXT, catalog_entry, meta.sharing, "as it says"),                                          \
        OUT_NULL("model", TEXT, catalog_entry, meta.model, "that it wants"),                                           \
        OUT_NULL("tags", TEXTS, catalog_entry, meta.tags, "as it says"),                                               \
        OUT_NULL("tools", TEXTS, catalog_entry, meta.tools, "that it may use; null: all")
static const struct row skill_entry_answer[] = {CATALOG_ROWS, ROW_NAMED("Skill")};
static const struct row agent_entry_answer[] = {
    CATALOG_ROWS,
    OUT("memory", BOOL, catalog_entry, meta.memory, "it may remember"),
    OUT("send_message", BOOL, catalog_entry, meta.send_message, "it may send messages"),
    OUT("spawn_agent", BOOL, catalog_entry, meta.spawn_agent, "it may start sub-agents"),
    ROW_NAMED("Agent"),
};
#define CATALOG_END_ROWS                                                                                               \
    OUT("workspace", TEXT, catalog_out, workspace, "of the box"),                                                      \
        OUT("bad", TEXTS, catalog_out, bad, "files that could not be read as what they should be: PATH: why")
const struct row skills_answer[] = {
    {.name = "skills", .type = ROW_OBJECTS, .fields = skill_entry_answer, .text = "by name"},
    CATALOG_END_ROWS,
    ROW_NAMED("Skills"),
};
const struct row agents_answer[] = {
    {.name = "agents", .type = ROW_OBJECTS, .fields = agent_entry_answer, .text = "by name"},
    CATALOG_END_ROWS,
    ROW_NAMED("Agents"),
};

/* ---- skills that are put and shared ---- */

#define ENTRY_TYPES "skill|agent"
const struct row registry_query_fields[] = {
    {ROW("type", TEXT, registry_args, type), .choices = ENTRY_TYPES, .text = "only of this type"},
    {ROW("q", TEXT, registry_args, text), .max = 256, .text = "only with this text in name, description or tags"},
    {ROW("mine", BOOL, registry_args, mine), .text = "only one's own"},
    {ROW("versions", BOOL, registry_args, versions), .text = "also versions that are not the newest"},
    {ROW("limit", INT, registry_args, limit), .min = 1, .max = LIMIT_REGISTRY_ROWS, .fallback = DEFAULT_REGISTRY_ROWS,
     .text = "entries"},
    {ROW("offset", INT, registry_args, offset), .max = INT32_MAX, .text = "entries to leave out first"},
    END,
};
const struct row registry_type_query[] = {
    {ROW("author", TEXT, registry_args, author), .min = 1, .max = LIMIT_USER_BYTES,
     .text = "whose; default: as install"},
    {ROW("type", TEXT, registry_args, type), .choices = ENTRY_TYPES,
     .text = "where a skill and an agent have one name"},
    END,
};
const struct row publish_fields[] = {
    {ROW("box", TEXT, publish_args, box), .flags = ROW_REQUIRED, .min = 1, .max = 64, .text = "where it is"},
    {ROW("name", TEXT, publish_args, name), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_NAME_BYTES,
     .text = "of its folder, or of its file without .md"},
    {ROW("type", TEXT, publish_args, type), .flags = ROW_AUDITED, .choices = ENTRY_TYPES, .text = "default skill"},
    {ROW("version", TEXT, publish_args, version), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_REGISTRY_VERSION,
     .text = "default: what its own file says, else the next whole number"},
    {ROW("sharing", TEXT, publish_args, sharing), .flags = ROW_AUDITED, .choices = "public|private",
     .text = "private: only its author and admins see it; default: what its own file says, else public"},
    {ROW("description", TEXT, publish_args, description), .max = LIMIT_REGISTRY_DESCRIPTION,
     .text = "default: its own file's"},
    {ROW("tags", TEXT, publish_args, tags), .max = LIMIT_REGISTRY_TAGS,
     .text = "separated by commas; default: its own file's"},
    ROW_NAMED("PublishRequest"),
};
const struct row install_fields[] = {
    {ROW("entry", TEXT, install_args, entry), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 512,
     .text = "a number, NAME or AUTHOR/NAME, perhaps with @VERSION; without one the newest"},
    {ROW("replace", BOOL, install_args, replace), .text = "take the place of what is there; else that is EXISTS"},
    ROW_NAMED("InstallRequest"),
};
const struct row skill_base_query[] = {
    {ROW("base", BOOL, skill_args, base),
     .text = "of the box's agent, for all of its users, instead of the user's own; for admins"},
    END,
};
const struct row skill_sync_fields[] = {
    {ROW("direction", TEXT, sync_args, direction), .flags = ROW_REQUIRED | ROW_AUDITED, .choices = "from_base|to_base",
     .text =
         "from_base: the user's copy becomes the agent's; to_base: the agent's becomes the user's, for admins. What "
         "only the target has is removed there"},
    ROW_NAMED("SyncRequest"),
};
const struct row sync_report_answer[] = {
    {ROW("how", TEXT, sync_out, report.how), .choices = "mount|copy|none",
     .text = "how they got there; none: there are none"},
    OUT_NULL("version", TEXT, sync_out, version, "of the global tree; null: there is none"),
    OUT_NULL("at", TIME, sync_out, report.at_ms, "when; null: never"),
    OUT_NULL("error", TEXT, sync_out, error, "what went wrong; null: nothing"),
    OUT_INT("written", sync_out, report.written, "files that were copied"),
    OUT_INT("removed", sync_out, report.removed, "files that are no longer there"),
    OUT_INT("kept", sync_out, report.kept, "files that the user had changed, and that stay his"),
    OUT_INT("unchanged", sync_out, report.unchanged, "files that were there already"),
    ROW_NAMED("SyncReport"),
};

#define ENTRY_ROWS                                                                                                     \
    OUT_INT("id", entry_out, entry.id, "of this version"),                                                             \
        {ROW("type", TEXT, entry_out, entry.type), .choices = ENTRY_TYPES, .text = "what it is"},                      \
        OUT("name", TEXT, entry_out, entry.name, "of its folder or file"),                                             \
        OUT("author", TEXT, entry_out, entry.author, "the user who published it"),                                     \
        OUT("version", TEXT, entry_out, entry.version, "never another content"),                                       \
        {ROW("sharing", TEXT, entry_out, entry.sharing), .choices = "public|private", .text = "who sees it"},          \
        OUT("description", TEXT, entry_out, entry.description, "what it is for"),                                      \
        OUT("tags", TEXT, entry_out, entry.tags, "separated by commas"),                                               \
        OUT("sha256", TEXT, entry_out, sha256, "of the content"),                                                      \
        OUT_INT("bytes", entry_out, entry.bytes, "of all its files"),                                                  \
        OUT_INT("files", entry_out, entry.files, "how many"),                                                          \
        OUT("created_at", TIME, entry_out, entry.created_ms, "when it was published"),                                 \
        OUT("updated_at", TIME, entry_out, entry.updated_ms, "when what is said about it changed last")
const struct row entry_answer[] = {ENTRY_ROWS, ROW_NAMED("RegistryEntry")};
const struct row registry_answer[] = {
    {.name = "entries", .type = ROW_OBJECTS, .fields = entry_answer, .text = "the newest first"},
    OUT_INT("total", registry_out, total, "entries that fit, shown or not"),
    ROW_NAMED("RegistryEntries"),
};
const struct row installed_answer[] = {ENTRY_ROWS, OUT("path", TEXT, entry_out, path, "where it is in the box"),
                                       ROW_NAMED("InstalledEntry")};
const struct row uploaded_answer[] = {
    OUT("skills", TEXTS, own_change, skills, "that the archive held"),
    OUT("pending", BOOL, own_change, pending,
        "commands still use the old ones: they are replaced when the last of these has ended"),
    OUT_INT("background", own_change, background, "processes in the background that may hold the old ones"),
    ROW_NAMED("Uploaded"),
};
