/* The rows of native requests and answers about catalogues and skills. Read as those of native/args.c. Invariant: names and
 * meanings here are the published contract; add, do not rename. */
#include "base/limits.h"
#include "front/native/args.h"
#include "front/native/rows.h"

/* ---- catalogues ---- */

const struct row catalog_query[] = {
    {ROW("format", TEXT, catalog_args, format), .choices = "json|prompt",
     .text = "prompt: text/plain, escaped, empty when there is nothing"},
    END,
};
#define CATALOG_ROWS                                                                                                   \
    SHOW("id", TEXT, "of its folder, or of its file without .md: what paths and other calls name it by"),              \
        SHOW("name", TEXT, "what it calls itself"), SHOW("description", TEXT, "what it is for"),                       \
        SHOW("path", TEXT, "its folder, or file, in the box"),                                                         \
        SHOW_NULL("file", TEXT, "the file that says all this; null: there is none"),                                   \
        {.name = "source", .type = ROW_TEXT, .choices = "personal|agent|global", .text = "whose it is"},               \
        SHOW_NULL("author", TEXT, "as it says"), SHOW_NULL("version", TEXT, "as it says"),                             \
        SHOW_NULL("license", TEXT, "as it says"), SHOW_NULL("sharing", TEXT, "as it says"),                            \
        SHOW_NULL("model", TEXT, "that it wants"), SHOW_NULL("tags", TEXTS, "as it says"),                             \
        SHOW_NULL("tools", TEXTS, "that it may use; null: all")
static const struct row skill_entry_answer[] = {CATALOG_ROWS, ROW_NAMED("Skill")};
static const struct row agent_entry_answer[] = {
    CATALOG_ROWS,
    SHOW("memory", BOOL, "it may remember"),
    SHOW("send_message", BOOL, "it may send messages"),
    SHOW("spawn_agent", BOOL, "it may start sub-agents"),
    ROW_NAMED("Agent"),
};
#define CATALOG_BAD_ROW SHOW("bad", TEXTS, "files that could not be read as what they should be: PATH: why")
const struct row skills_answer[] = {
    SHOW("workspace", TEXT, "of the box"),
    {.name = "skills", .type = ROW_OBJECTS, .fields = skill_entry_answer, .text = "by name"},
    CATALOG_BAD_ROW,
    ROW_NAMED("Skills"),
};
const struct row agents_answer[] = {
    SHOW("workspace", TEXT, "of the box"),
    {.name = "agents", .type = ROW_OBJECTS, .fields = agent_entry_answer, .text = "by name"},
    CATALOG_BAD_ROW,
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
    {.name = "how", .type = ROW_TEXT, .choices = "mount|copy|none", .text = "how they got there; none: there are none"},
    SHOW_NULL("version", TEXT, "of the global tree; null: there is none"),
    SHOW_NULL("at", TEXT, "when; null: never"),
    SHOW_NULL("error", TEXT, "what went wrong; null: nothing"),
    SHOW("written", INT, "files that were copied"),
    SHOW("removed", INT, "files that are no longer there"),
    SHOW("kept", INT, "files that the user had changed, and that stay his"),
    SHOW("unchanged", INT, "files that were there already"),
    ROW_NAMED("SyncReport"),
};

#define ENTRY_ROWS                                                                                                     \
    SHOW("id", INT, "of this version"),                                                                                \
        {.name = "type", .type = ROW_TEXT, .choices = ENTRY_TYPES, .text = "what it is"},                              \
        SHOW("name", TEXT, "of its folder or file"), SHOW("author", TEXT, "the user who published it"),                \
        SHOW("version", TEXT, "never another content"),                                                                \
        {.name = "sharing", .type = ROW_TEXT, .choices = "public|private", .text = "who sees it"},                     \
        SHOW("description", TEXT, "what it is for"), SHOW("tags", TEXT, "separated by commas"),                        \
        SHOW("sha256", TEXT, "of the content"), SHOW("bytes", INT, "of all its files"),                                \
        SHOW("files", INT, "how many"), SHOW("created_at", TIME, "when it was published"),                             \
        SHOW("updated_at", TIME, "when what is said about it changed last")
const struct row entry_answer[] = {ENTRY_ROWS, ROW_NAMED("RegistryEntry")};
const struct row registry_answer[] = {
    {.name = "entries", .type = ROW_OBJECTS, .fields = entry_answer, .text = "the newest first"},
    SHOW("total", INT, "entries that fit, shown or not"),
    ROW_NAMED("RegistryEntries"),
};
const struct row installed_answer[] = {ENTRY_ROWS, SHOW("path", TEXT, "where it is in the box"),
                                       ROW_NAMED("InstalledEntry")};
const struct row uploaded_answer[] = {
    SHOW("skills", TEXTS, "that the archive held"),
    SHOW("pending", BOOL, "commands still use the old ones: they are replaced when the last of these has ended"),
    SHOW("background", INT, "processes in the background that may hold the old ones"),
    ROW_NAMED("Uploaded"),
};
