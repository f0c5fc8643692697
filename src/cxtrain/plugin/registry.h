#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/config/arguments.h"
#include "cxtrain/config/fields.h"

/// On a template: each library keeps its own instantiation, and none is exported with the name of an internal
/// class.
#define CXTRAIN_OWN_COPY [[gnu::visibility("hidden")]]

namespace cxtrain {

/// The type that an interface names as `Context`; an empty type if the interface names none.
template <class Interface, class = void>
struct ContextOf {
  struct Type {};
};
template <class Interface>
struct ContextOf<Interface, std::void_t<typename Interface::Context>> {
  using Type = typename Interface::Context;
};

/// Components by name: strategies, comm hooks, models, data modules, callbacks, loggers. One mechanism serves
/// all kinds.
///
/// An interface takes part by naming itself and its kind:
///
///     class MetricLogger {
///      public:
///       static constexpr std::string_view kKind = "logger";
///       using Interface = MetricLogger;
///       ...
///     };
///
/// A plugin adds a class that derives from it. The class lists its arguments in `Args` (config/field.h), and
/// its constructor takes them; a class without arguments has a constructor without parameters:
///
///     class WandbLogger : public MetricLogger {
///      public:
///       struct Args {
///         std::string project = "cxtrain";
///         void fields(auto&& field) { field("project", project, "name of the project"); }
///       };
///       explicit WandbLogger(const Args& args);
///       ...
///     };
///
///     registry.add<WandbLogger>("wandb", "sends metrics to Weights & Biases");
///
/// If the program needs facts about a component before it makes one, the interface names a type for them,
/// `using Traits = StrategyTraits;`, and the plugin passes them:
///
///     registry.add<MyStrategy>("mine", "gradients averaged my way", StrategyTraits{...});
///
/// If a component may need facts about its run, the interface names a type for them, `using Context =
/// RunFolder;`, and the constructor of a class may take it, after `Args` if there are any.
class Registry {
 public:
  template <class Interface>
  using Context = typename ContextOf<Interface>::Type;
  template <class Interface>
  using Factory = std::function<std::unique_ptr<Interface>(const Arguments&, const Context<Interface>&)>;

  struct Entry {
    std::string kind, name, help;
    std::vector<ArgumentSpec> arguments;
    std::string origin;  ///< the component's file, or "built in"
    std::any factory;
    std::any traits = {};  ///< has the interface's `Traits` type; empty if it has none
  };

  /// Adds a class under a name.
  template <class Class>
  CXTRAIN_OWN_COPY void add(std::string name, std::string help) {
    static_assert(
        !requires { typename Class::Interface::Traits; }, "a component of this kind has traits, too");
    insert(entry_of<Class>(std::move(name), std::move(help)));
  }
  template <class Class>
  CXTRAIN_OWN_COPY void add(std::string name, std::string help, typename Class::Interface::Traits traits) {
    Entry entry = entry_of<Class>(std::move(name), std::move(help));
    entry.traits = std::move(traits);
    insert(std::move(entry));
  }

  /// Adds a component that a function makes from its arguments, for classes that stay in their own file.
  template <class Interface, class Args>
  CXTRAIN_OWN_COPY void add(std::string name, std::string help, typename Interface::Traits traits,
                            std::unique_ptr<Interface> (*function)(const Args&)) {
    insert({std::string(Interface::kKind), std::move(name), std::move(help), argument_specs<Args>(), origin_,
            Factory<Interface>([function](const Arguments& arguments, const Context<Interface>&) {
              return function(read_args<Args>(arguments));
            }),
            std::move(traits)});
  }

  /// Returns the entry, or null.
  const Entry* find(std::string_view kind, std::string_view name) const;

  /// Makes a component. Throws PluginError, with the names found, if there is none of this name.
  template <class Interface>
  std::unique_ptr<Interface> make(std::string_view name, const Arguments& arguments,
                                  const Context<Interface>& context = {}) const {
    return std::any_cast<const Factory<Interface>&>(require(Interface::kKind, name).factory)(arguments,
                                                                                             context);
  }

  /// Returns the component's traits. Throws PluginError, with the names found, if there is none of this name.
  template <class Interface>
  typename Interface::Traits traits(std::string_view name) const {
    return std::any_cast<typename Interface::Traits>(require(Interface::kKind, name).traits);
  }

  /// Returns the entry. Throws PluginError, with the names found, if there is none of this name.
  const Entry& require(std::string_view kind, std::string_view name) const;
  std::vector<std::string> names(std::string_view kind) const;

  /// Returns whether a component came from this file.
  bool has_origin(std::string_view origin) const;

  /// Sets `Entry::origin` for the following additions. Called by the loader.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

 private:
  /// Whether the constructor of a class takes its `Args`. They may be those of a base class that the class
  /// fills itself.
  template <class Class>
  static constexpr bool takes_args() {
    if constexpr (requires { typename Class::Args; }) {
      return std::is_constructible_v<Class, typename Class::Args> ||
             std::is_constructible_v<Class, typename Class::Args, const Context<typename Class::Interface>&>;
    } else {
      return false;
    }
  }

  template <class Class>
  CXTRAIN_OWN_COPY static std::unique_ptr<Class> make_class(
      const Arguments& arguments, const Context<typename Class::Interface>& context) {
    using ClassContext = Context<typename Class::Interface>;
    if constexpr (takes_args<Class>()) {
      const auto args = read_args<typename Class::Args>(arguments);
      std::unique_ptr<Class> made;
      if constexpr (std::is_constructible_v<Class, typename Class::Args, const ClassContext&>) {
        made = std::make_unique<Class>(args, context);
      } else {
        made = std::make_unique<Class>(args);
      }
      if constexpr (requires { made->save_hyperparameters(args); }) made->save_hyperparameters(args);
      return made;
    } else if constexpr (std::is_constructible_v<Class, const ClassContext&>) {
      return std::make_unique<Class>(context);
    } else {
      return std::make_unique<Class>();
    }
  }

  template <class Class>
  CXTRAIN_OWN_COPY Entry entry_of(std::string name, std::string help) const {
    using Interface = typename Class::Interface;
    static_assert(std::is_base_of_v<Interface, Class>);
    Entry entry{std::string(Interface::kKind),         std::move(name), std::move(help), {}, origin_,
                Factory<Interface>(&make_class<Class>)};
    if constexpr (takes_args<Class>()) entry.arguments = argument_specs<typename Class::Args>();
    return entry;
  }
  void insert(Entry entry);

  std::map<std::pair<std::string, std::string>, Entry> entries_;
  std::string origin_ = "built in";
};

}  // namespace cxtrain

#undef CXTRAIN_OWN_COPY
